! Random sections, put and read at random offsets with strides, in steps, against Fortran arrays.
program random_sections
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use drystone
  implicit none

  integer, parameter :: N = 6, STEPS = 3, ROUNDS = 60
  type :: section
     integer :: first(3), last(3), by(3), count(3)
  end type section
  type, bind(c) :: point
     real(c_double) :: x
     integer(c_int8_t) :: tag
  end type point
  type(dry_container) :: c
  type(dry_writer) :: w
  integer :: round

  real(c_double) :: reals(N, N, N, 0:STEPS-1) = -1
  integer(c_int16_t) :: shorts(N, N) = 0
  character(kind=c_char, len=3) :: words(N) = repeat(c_null_char, 3)
  complex(c_float) :: waves(N, N) = 0
  logical(c_bool) :: flags(N, N) = .false.
  type(point) :: points(N, N)

  points%x = 0
  points%tag = 0
  call seed()
  call dry_create("random.dry", c, durability=DRY_MEMORY)
  call c%create_variable("reals", DRY_FLOAT64, shape=[N, N, N], steps=.true., transform="shuffle,zstd:1", chunks=[2, 3, 4])
  call c%create_variable("shorts", DRY_INT16, shape=[N, N])
  call c%create_variable("words", DRY_BYTES, shape=[N], length=3)
  call c%create_variable("waves", DRY_COMPLEX64, shape=[N, N], transform="lz4")
  call c%create_variable("flags", DRY_BOOL, shape=[N, N])
  call c%create_records("points", [dry_member("x", DRY_FLOAT64, 0_int64), dry_member("tag", DRY_INT8, 8_int64)], &
       c_sizeof(points(1, 1)), shape=[N, N])
  reals = 0
  do round = 1, ROUNDS
     call put_some()
     call read_some()
  end do
  call c%close()

contains

  subroutine seed()
    integer, allocatable :: start(:)
    integer :: length, i
    call random_seed(size=length)
    start = [(7919*i, i=1, length)]
    call random_seed(put=start)
  end subroutine seed

  !> A random number from 0 to the limit, exclusive.
  integer function any_of(below)
    integer, intent(in) :: below
    real :: x
    call random_number(x)
    any_of = min(below - 1, int(x*real(below)))
  end function any_of

  !> A random section of an array with `size` elements per dimension: forwards or backwards, with strides,
  !> `count` elements.
  function some_section(count) result(s)
    integer, intent(in) :: count(3)
    type(section) :: s
    integer :: d
    s%count = count
    do d = 1, 3
       s%by(d) = 1 + any_of(2)
       s%first(d) = 1 + any_of(2*N - s%by(d)*max(0, count(d) - 1))
       s%last(d) = s%first(d) + s%by(d)*(count(d) - 1)
       if (any_of(2) == 0 .and. count(d) > 0) then
          s%by(d) = -s%by(d)
          s%first(d:d) = [s%last(d)]
          s%last(d) = s%first(d) + s%by(d)*(count(d) - 1)
       end if
    end do
  end function some_section

  !> A random box of the variables.
  subroutine some_box(offset, count)
    integer, intent(out) :: offset(3), count(3)
    integer :: d
    do d = 1, 3
       offset(d) = any_of(N)
       count(d) = any_of(N - offset(d) + 1)
    end do
  end subroutine some_box

  subroutine put_some()
    real(c_double) :: many(2*N, 2*N, 2*N)
    integer(c_int16_t) :: small(2*N, 2*N)
    character(kind=c_char, len=3) :: texts(2*N)
    complex(c_float) :: z(2*N, 2*N)
    logical(c_bool) :: l(2*N, 2*N)
    type(point) :: p(2*N, 2*N)
    integer :: o(3), k(3), step, i, j
    type(section) :: s
    logical :: drop

    call random_number(many)
    small = int(1000*many(:, :, 1), c_int16_t)
    z = cmplx(many(:, :, 2), many(:, :, 3), c_float)
    l = many(:, :, 4) > 0.5d0
    p%x = many(:, :, 5)
    p%tag = int(100*many(:, :, 6), c_int8_t)
    do i = 1, 2*N
       texts(i) = achar(65 + i) // achar(97 + any_of(26)) // achar(48 + any_of(10))
    end do
    call c%open_writer(w)
    call some_box(o, k)
    s = some_section(k)
    step = any_of(STEPS)
    drop = any_of(4) == 0
    call w%begin_step(step)
    call w%put("reals", many(s%first(1):s%last(1):s%by(1), s%first(2):s%last(2):s%by(2), s%first(3):s%last(3):s%by(3)), offset=o)
    if (drop) then
       call w%abort_step()
    else
       call w%end_step()
       reals(o(1)+1:o(1)+k(1), o(2)+1:o(2)+k(2), o(3)+1:o(3)+k(3), step) = &
            many(s%first(1):s%last(1):s%by(1), s%first(2):s%last(2):s%by(2), s%first(3):s%last(3):s%by(3))
    end if
    call some_box(o, k)
    s = some_section(k)
    associate (i1 => o(1) + 1, i2 => o(1) + k(1), j1 => o(2) + 1, j2 => o(2) + k(2), &
         a => s%first(1), b => s%last(1), g => s%by(1), e => s%first(2), f => s%last(2), h => s%by(2))
      call w%put("shorts", small(a:b:g, e:f:h), offset=o(:2))
      shorts(i1:i2, j1:j2) = small(a:b:g, e:f:h)
      call w%put("words", texts(a:b:g), offset=o(:1))
      words(i1:i2) = texts(a:b:g)
      call w%put("waves", z(a:b:g, e:f:h), offset=o(:2))
      waves(i1:i2, j1:j2) = z(a:b:g, e:f:h)
      call w%put("flags", l(a:b:g, e:f:h), offset=o(:2))
      flags(i1:i2, j1:j2) = l(a:b:g, e:f:h)
      if (any_of(2) == 0) then
         call w%put("points", p(a:b:g, e:f:h), offset=o(:2))
         points(i1:i2, j1:j2) = p(a:b:g, e:f:h)
      else ! a member, out of the records in which it lies
         call w%put("points", p(a:b:g, e:f:h)%x, offset=o(:2), member="x")
         do j = j1, j2
            do i = i1, i2
               points(i, j)%x = p(a + g*(i - i1), e + h*(j - j1))%x
            end do
         end do
      end if
    end associate
    call w%close()
    call c%commit()
  end subroutine put_some

  !> Every `by`-th cell of a variable, from `offset` on.
  subroutine some_cells(offset, by, count)
    integer, intent(out) :: offset(3), by(3), count(3)
    integer :: d
    do d = 1, 3
       offset(d) = any_of(N)
       by(d) = merge(1, -1, any_of(2) == 0)*(1 + any_of(3))
       count(d) = any_of(1 + merge(N - 1 - offset(d), offset(d), by(d) > 0)/abs(by(d)) + 1)
    end do
  end subroutine some_cells

  subroutine read_some()
    real(c_double) :: many(2*N, 2*N, 2*N), rest(2*N, 2*N, 2*N)
    integer(c_int16_t) :: small(2*N, 2*N), small_rest(2*N, 2*N)
    character(kind=c_char, len=3) :: texts(2*N)
    complex(c_float) :: z(2*N, 2*N)
    logical(c_bool) :: l(N, N)
    type(point) :: p(2*N, 2*N)
    integer(int64), allocatable :: found(:, :)
    type(dry_variable) :: v
    integer :: o(3), by(3), k(3), i, j, m, step
    type(section) :: s

    call c%open_variable(v, "reals")
    do step = 0, int(v%step_axis()) - 1
       call some_cells(o, by, k)
       s = some_section(k)
       many = -7
       rest = -7
       call v%read(many(s%first(1):s%last(1):s%by(1), s%first(2):s%last(2):s%by(2), s%first(3):s%last(3):s%by(3)), step=step, &
            offset=o, stride=by)
       do m = 1, k(3)
          do j = 1, k(2)
             do i = 1, k(1)
                rest(s%first(1) + s%by(1)*(i - 1), s%first(2) + s%by(2)*(j - 1), s%first(3) + s%by(3)*(m - 1)) = &
                     reals(o(1) + 1 + by(1)*(i - 1), o(2) + 1 + by(2)*(j - 1), o(3) + 1 + by(3)*(m - 1), step)
             end do
          end do
       end do
       call require(all(many == rest), __LINE__)
       call v%find(0.5d0, 2d0, found, step=step)
       call require(size(found, 2) == count(reals(:, :, :, step) >= 0.5d0), __LINE__)
       call v%read_points(many(1, 1:min(size(found, 2), N), 1), found(:, :min(size(found, 2), N)), step=step)
       do i = 1, min(size(found, 2), N)
          call require(many(1, i, 1) == reals(found(1, i) + 1, found(2, i) + 1, found(3, i) + 1, step), __LINE__)
       end do
    end do
    call v%close()

    call some_cells(o, by, k)
    s = some_section(k)
    small = -1
    small_rest = -1
    call c%open_variable(v, "shorts")
    call v%read(small(s%first(1):s%last(1):s%by(1), s%first(2):s%last(2):s%by(2)), offset=o(:2), stride=by(:2))
    call v%close()
    do j = 1, k(2)
       do i = 1, k(1)
          small_rest(s%first(1) + s%by(1)*(i - 1), s%first(2) + s%by(2)*(j - 1)) = &
               shorts(o(1) + 1 + by(1)*(i - 1), o(2) + 1 + by(2)*(j - 1))
       end do
    end do
    call require(all(small == small_rest), __LINE__)

    call c%open_variable(v, "words")
    call v%read(texts(2*N:2:-2))
    call require(all(texts(2*N:2:-2) == words), __LINE__)
    call v%close()
    call c%open_variable(v, "waves")
    call v%read(z(2:2*N:2, N:1:-1))
    call require(all(z(2:2*N:2, N:1:-1) == waves), __LINE__)
    call v%close()
    call c%open_variable(v, "flags")
    call v%read(l)
    call require(logical(all(l .eqv. flags)), __LINE__)
    call v%close()
    p%x = -1
    p%tag = -1
    call c%open_variable(v, "points")
    call v%read(p(:N, 2*N:N+1:-1))
    call v%close()
    call require(all(p(:N, 2*N:N+1:-1)%x == points%x) .and. all(p(:N, 2*N:N+1:-1)%tag == points%tag), __LINE__)
    call c%open_variable(v, "points", member="x")
    call v%read(p(1:2*N:2, 1:N)%x) ! one member into records of which the others stay
    call v%close()
    call require(all(p(1:2*N:2, 1:N)%x == points%x) .and. all(p(1:2*N:2, 1:N)%tag == -1), __LINE__)
  end subroutine read_some

  subroutine require(so, line)
    logical, intent(in) :: so
    integer, intent(in) :: line
    if (so) return
    write (error_unit, '(a, i0, a, i0)') "line ", line, ", round ", round
    error stop 1
  end subroutine require
end program random_sections
