! Arrays of every type, rank and memory layout; records, strings, rules, fragments; points, searches, publishing; a team of one
! rank; failures with and without `status`.
program arrays
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64, error_unit
  use drystone
  implicit none
  type, bind(c) :: particle
     real(c_double) :: mass
     integer(c_int32_t) :: id
     real(c_float) :: position(2, 3)
  end type particle
  type(dry_container) :: c

  call dry_create("arrays.dry", c, durability=DRY_MEMORY)
  call types()
  call sections()
  call ranks()
  call records()
  call strings()
  call lists()
  call members_of_any_length()
  call rules()
  call fragments()
  call searching()
  call far_away()
  call team_of_one()
  call regions()
  call failures()
  call c%close()

contains

  subroutine require(so, line)
    logical, intent(in) :: so
    integer, intent(in) :: line
    if (so) return
    write (error_unit, '(a,i0)') "arrays.f90: not so in line ", line
    error stop 1
  end subroutine require

  subroutine regions()
    type(dry_region) :: box, again
    type(dry_variable) :: v
    real(c_double), pointer :: values(:, :)
    real(c_double) :: back(5, 4)
    integer(int64) :: number
    integer :: status

    call c%create_variable("m/T", DRY_FLOAT64, [5, 4], steps=.true.)
    call c%map(box, "m/T", [1, 2], [3, 2], step=0)
    call box%lock()
    call c_f_pointer(box%memory(), values, [3, 2])
    values = reshape([1.d0, 2.d0, 3.d0, 4.d0, 5.d0, 6.d0], [3, 2])
    call box%release(transfer=number)
    call c%wait(number)
    call c%commit()
    call c%open_variable(v, "m/T")
    call v%read(back, step=0)
    call v%close()
    call require(back(2, 3) == 1 .and. back(4, 3) == 3 .and. back(2, 4) == 4 .and. back(4, 4) == 6, __LINE__)
    call require(back(1, 1) == 0 .and. back(5, 4) == 0, __LINE__)
    call c%map(again, "m/T", [3, 3], [1, 1], step=0, access=DRY_MAP_READ + DRY_MAP_WRITE)
    call c_f_pointer(again%memory(), values, [1, 1])
    call require(values(1, 1) == 6, __LINE__)
    call box%lock()
    call again%lock(timeout=0.d0, status=status)
    call require(status == DRY_DEADLINE, __LINE__)
    call box%unlock()
    call again%lock()
    values(1, 1) = 60
    call again%release(level=DRY_STABLE)
    call c%transfer("m/T", "m/narrow", number, rule="cast:dtype=f4")
    call c%wait(number)
    call box%unmap()
    call c%map(box, "m/T", [4, 3], [3, 2], step=0, status=status)
    call require(status == DRY_OUT_OF_RANGE, __LINE__)
    call again%unmap()
  end subroutine regions

  subroutine types()
    integer(c_int8_t) :: a(3) = [1_c_int8_t, -2_c_int8_t, 3_c_int8_t], a2(3)
    integer(c_int16_t) :: b(3) = [1_c_int16_t, -2_c_int16_t, 3_c_int16_t], b2(3)
    integer(c_int32_t) :: d(3) = [1, -2, 3], d2(3)
    integer(c_int64_t) :: e(3) = [1_int64, -2_int64, 3_int64], e2(3)
    real(c_float) :: f(3) = [1., -2., 3.], f2(3)
    real(c_double) :: g(3) = [1.d0, -2.d0, 3.d0], g2(3)
    complex(c_float_complex) :: h(3) = [(1., 2.), (3., 4.), (5., 6.)], h2(3)
    complex(c_double_complex) :: z(3) = [(1.d0, 2.d0), (3.d0, 4.d0), (5.d0, 6.d0)], z2(3)
    logical(c_bool) :: l(3) = [.true._c_bool, .false._c_bool, .true._c_bool], l2(3)
    real(c_double) :: scalar = 2.5d0, scalar2
    type(dry_writer) :: w
    type(dry_variable) :: v

    call c%create_variable("t/a", DRY_INT8, [3])
    call c%create_variable("t/b", DRY_INT16, [3])
    call c%create_variable("t/d", DRY_INT32, [3])
    call c%create_variable("t/e", DRY_INT64, [3])
    call c%create_variable("t/f", DRY_FLOAT32, [3])
    call c%create_variable("t/g", DRY_FLOAT64, [3])
    call c%create_variable("t/h", DRY_COMPLEX64, [3])
    call c%create_variable("t/z", DRY_COMPLEX128, [3])
    call c%create_variable("t/l", DRY_BOOL, [3])
    call c%create_variable("t/s", DRY_FLOAT64, [integer ::])
    call c%open_writer(w)
    call w%put("t/a", a)
    call w%put("t/b", b)
    call w%put("t/d", d)
    call w%put("t/e", e)
    call w%put("t/f", f)
    call w%put("t/g", g)
    call w%put("t/h", h)
    call w%put("t/z", z)
    call w%put("t/l", l)
    call w%put("t/s", scalar)
    call w%close()
    call c%open_variable(v, "t/a"); call v%read(a2); call v%close()
    call c%open_variable(v, "t/b"); call v%read(b2); call v%close()
    call c%open_variable(v, "t/d"); call v%read(d2); call v%close()
    call c%open_variable(v, "t/e"); call v%read(e2); call v%close()
    call c%open_variable(v, "t/f"); call v%read(f2); call v%close()
    call c%open_variable(v, "t/g"); call v%read(g2); call v%close()
    call c%open_variable(v, "t/h"); call v%read(h2); call v%close()
    call c%open_variable(v, "t/z"); call v%read(z2); call v%close()
    call c%open_variable(v, "t/l"); call v%read(l2); call v%close()
    call c%open_variable(v, "t/s"); call v%read(scalar2); call v%close()
    call require(all(a == a2) .and. all(b == b2) .and. all(d == d2) .and. all(e == e2), __LINE__)
    call require(all(f == f2) .and. all(g == g2) .and. all(h == h2) .and. all(z == z2), __LINE__)
    call require(all(l .eqv. l2) .and. scalar == scalar2, __LINE__)
  end subroutine types

  subroutine sections()
    real(c_double) :: field(0:9, -2:5), back(10, 8), part(3, 2)
    integer :: i, j
    type(dry_writer) :: w
    type(dry_variable) :: v

    do j = -2, 5
       do i = 0, 9
          field(i, j) = 100*i + j
       end do
    end do
    call c%create_variable("sections", DRY_FLOAT64, [5, 8], dims=["x   ", "long"], chunks=[5, 4])
    call c%open_writer(w)
    call w%put("sections", field(9:1:-2, :)) ! every other row, backwards
    call w%close()
    call c%open_variable(v, "sections")
    back = -1
    call v%read(back(2:10:2, 8:1:-1)) ! into every other row, columns backwards
    call require(all(back(1::2, :) == -1) .and. back(2, 8) == 898 .and. back(10, 1) == 105, __LINE__)
    call v%read(part, offset=[0, 3], stride=[2, -3])
    call require(part(1, 1) == 901 .and. part(3, 1) == 101 .and. part(2, 2) == 498, __LINE__)
    call v%close()
  end subroutine sections

  subroutine ranks()
    real(c_float) :: half(4), whole(8)
    integer(int64) :: begun
    integer(int64), allocatable :: list(:)
    integer :: r
    logical :: changed
    type(dry_container) :: reader
    type(dry_writer) :: w(2)
    type(dry_variable) :: v

    call dry_open("arrays.dry", reader)
    call c%create_variable("p", DRY_FLOAT32, [8], steps=.true.)
    do r = 1, 2
       call c%open_writer(w(r), rank=r - 1, nranks=2)
       call w(r)%begin_step(begun=begun)
       call require(begun == 0, __LINE__)
       half = r
       call w(r)%put("p", half, offset=[4*(r - 1)])
       call w(r)%end_step()
    end do
    call c%commit()
    call w(1)%begin_step(step=5)
    call w(1)%put("p", half)
    call w(1)%abort_step()
    call w(1)%close()
    call w(2)%close()
    call reader%refresh(changed)
    call reader%steps(list)
    call require(changed .and. size(list) == 1 .and. list(1) == 0, __LINE__)
    call reader%open_variable(v, "p")
    call v%read(whole, step=0)
    call require(all(whole(:4) == 1) .and. all(whole(5:) == 2) .and. v%step_axis() == 1, __LINE__)
    call v%close()
    call reader%close()
    call c%recover()
    call c%flush()
  end subroutine ranks

  subroutine records()
    type(particle), target :: p(4), back(4)
    real(c_double) :: masses(4)
    character(3) :: codes(2) = ["abc", "de "], codes_back(2)
    integer :: i, status
    type(dry_writer) :: w
    type(dry_variable) :: v
    type(dry_member) :: members(3)

    do i = 1, 4
       p(i)%mass = 1.5d0*i
       p(i)%id = i
       p(i)%position = reshape([1., 2., 3., 4., 5., 6.], [2, 3])*i
    end do
    members(1) = dry_member("mass", DRY_FLOAT64, dry_offset(c_loc(p(1)), c_loc(p(1)%mass)))
    members(2) = dry_member("id", DRY_INT32, dry_offset(c_loc(p(1)), c_loc(p(1)%id)))
    members(3) = dry_member("position", DRY_FLOAT32, dry_offset(c_loc(p(1)), c_loc(p(1)%position)), &
         shape=[2_int64, 3_int64, -1_int64, -1_int64])
    call c%create_records("particles", members, c_sizeof(p(1)), [4])
    call c%create_variable("codes", DRY_BYTES, [2], length=3)
    call c%open_writer(w)
    call w%put("particles", p)
    masses(:2) = [7.5d0, 8.5d0]
    call w%put("particles", masses(:2), offset=[1], member="mass") ! over two of them
    call w%put("codes", codes)
    call w%close()
    call c%open_variable(v, "particles")
    call v%read(back)
    call require(all(back%id == [1, 2, 3, 4]) .and. all(back%mass == [1.5d0, 7.5d0, 8.5d0, 6.d0]), __LINE__)
    call require(all(back(3)%position == p(3)%position), __LINE__)
    call v%read(masses, status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call v%close()
    call c%open_variable(v, "particles", member="mass")
    call v%read(masses)
    call require(all(masses == [1.5d0, 7.5d0, 8.5d0, 6.d0]), __LINE__)
    call v%close()
    call c%open_variable(v, "particles", member="weight", status=status)
    call require(status == DRY_NOT_FOUND, __LINE__)
    call c%open_variable(v, "codes")
    call v%read(codes_back)
    call require(all(codes_back == codes), __LINE__)
    call v%close()
  end subroutine records

  subroutine lists()
    real(real32) :: numbers(6)
    real(real32), allocatable :: back(:)
    real(real64) :: wide(6)
    integer :: lengths(2, 2), status
    integer(int64), allocatable :: found(:)
    type(dry_writer) :: w
    type(dry_variable) :: v

    numbers = [1, 2, 3, 4, 5, 6]
    lengths = reshape([2, 0, 1, 3], [2, 2])
    call c%create_variable("lists", DRY_RAGGED, [3, 2], length=DRY_FLOAT32)
    call c%open_writer(w)
    call w%put_lists("lists", numbers, lengths, offset=[1, 0])
    call w%put_lists("lists", numbers(:2), [1, 1], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__) ! of one dimension, and the variable has two
    call w%put_lists("lists", numbers, lengths + 1, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "do not add up") > 0, __LINE__)
    call w%put_lists("lists", wide, lengths, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "has lists of float32") > 0, __LINE__)
    call w%put_lists("lists", numbers(::2), lengths, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "one contiguous array") > 0, __LINE__)
    call w%close()
    call c%open_variable(v, "lists")
    call v%list_lengths(found, count=[3, 2])
    call require(all(found == [0, 2, 0, 0, 1, 3]), __LINE__)
    allocate (back(sum(found)))
    call v%read_lists(back, count=[3, 2])
    call require(all(back == numbers), __LINE__)
    call v%read_lists(back(:4), count=[2, 1], offset=[1, 1])
    call require(all(back(:4) == numbers(3:)), __LINE__)
    call v%read_lists(back(:3), count=[2, 1], offset=[1, 1], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "as many elements") > 0, __LINE__)
    call v%list_lengths(found, count=[4, 2], status=status)
    call require(status == DRY_OUT_OF_RANGE .and. size(found) == 0, __LINE__)
    call v%close()
  end subroutine lists

  ! Texts and lists in records: each takes 16 bytes of the record.
  subroutine members_of_any_length()
    character(:), allocatable :: back(:)
    real(real32), allocatable :: numbers(:)
    integer :: status
    character(1) :: one_each(3)
    integer(int64), allocatable :: found(:)
    type(dry_member) :: members(3), letters(2)
    type(dry_writer) :: w
    type(dry_variable) :: v

    members(1) = dry_member("name", DRY_STRING, 0_int64)
    members(2) = dry_member("words", DRY_STRING, 16_int64, shape=[2_int64, -1_int64, -1_int64, -1_int64])
    members(3) = dry_member("hits", DRY_RAGGED, 48_int64, length=DRY_FLOAT32)
    call c%create_records("events", members, 64_int64, [3])
    letters(1) = dry_member("v", DRY_BYTES, 0_int64, length=1)
    letters(2) = dry_member("value", DRY_BYTES, 1_int64, length=1)
    call c%create_records("letters", letters, 2_int64, [3])
    call c%open_writer(w)
    call w%put_member_strings("events", "name", [character(3) :: "one", "b"], offset=[1])
    call w%put_member_strings("events", "words[1]", ["x", "y", "z"])
    call w%put_member_lists("events", "hits", [1.0, 2.0, 3.0], [1, 0, 2])
    call w%put_member("letters", "value", ["x", "y", "z"])
    call w%put("letters", ["x", "y", "z"], member="value", status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "put_member") > 0, __LINE__)
    call w%put("letters", "x", member="value", status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "put_member") > 0, __LINE__)
    call w%put_member_strings("events", "nam", ["x"], status=status)
    call require(status == DRY_NOT_FOUND .and. index(dry_message(), "no member") > 0, __LINE__)
    call w%put_member_lists("events", "name", [1.0], [1], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "not lists of numbers") > 0, __LINE__)
    call w%close()
    call c%open_variable(v, "events", member="name")
    call v%read_strings(back, count=[3])
    call require(back(1) == "" .and. back(2) == "one" .and. back(3) == "b", __LINE__)
    call v%close()
    call c%open_variable(v, "letters", member="value")
    call v%read(one_each)
    call require(all(one_each == ["x", "y", "z"]), __LINE__)
    call v%close()
    call c%open_variable(v, "letters", member="v")
    call v%read(one_each)
    call require(all(iachar(one_each) == 0), __LINE__)
    call v%close()
    call c%open_variable(v, "events", member="words[1]")
    call v%read_strings(back, count=[3])
    call require(all(back == ["x", "y", "z"]), __LINE__)
    call v%close()
    call c%open_variable(v, "events", member="hits")
    call v%list_lengths(found, count=[3])
    call require(all(found == [1, 0, 2]), __LINE__)
    allocate (numbers(3))
    call v%read_lists(numbers, count=[3])
    call require(all(numbers == [1.0, 2.0, 3.0]), __LINE__)
    call v%close()
  end subroutine members_of_any_length

  subroutine strings()
    character(6) :: names(2, 3)
    character(:), allocatable :: back(:)
    integer :: status, step
    integer(int64) :: begun
    type(dry_writer) :: w
    type(dry_variable) :: v

    names = reshape([character(6) :: "a", "bb", "", "dddddd", "e e", "f"], [2, 3])
    call c%create_variable("names", DRY_STRING, [2, 3], steps=.true.)
    call c%open_writer(w, rank=0, nranks=1)
    call w%begin_step(begun=begun)
    step = int(begun)
    call w%put_strings("names", names(:, 1:3:2), offset=[0, 0], status=status) ! a section: columns 1 and 3
    call require(status == DRY_OK, __LINE__)
    call w%put_strings("names", names(:, 2:2), offset=[0, 2])
    call w%put_strings("names", names(:, 1), offset=[0, 0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "offset has 2 entries, the array 1") > 0, __LINE__)
    call w%put_strings("names", names, offset=[0, -1], status=status)
    call require(status == DRY_OUT_OF_RANGE .and. index(dry_message(), "the offset is -1 in dimension 2") > 0, __LINE__)
    call w%put_strings("names", [1, 2], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "no array of character") > 0, __LINE__)
    call w%end_step()
    call w%close()
    call c%open_variable(v, "names")
    call v%read_strings(back, count=[2, 3], step=step)
    call require(size(back) == 6 .and. len(back) == 6, __LINE__)
    call require(all(back == [names(:, 1), names(:, 3), names(:, 2)]), __LINE__)
    call v%read_strings(back, count=[1, 2], step=step, offset=[1, 0])
    call require(all(back == ["bb", "f "]) .and. len(back) == 2, __LINE__)
    call v%read_strings(back, count=[3, 1], step=step, status=status)
    call require(status == DRY_OUT_OF_RANGE .and. size(back) == 0, __LINE__)
    call v%read_strings(back, count=[1, 2], step=step, offset=[1], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "different numbers of entries") > 0, __LINE__)
    call v%read_strings(back, count=[1, -2], step=step, status=status)
    call require(status == DRY_OUT_OF_RANGE .and. index(dry_message(), "the count is -2 in dimension 2") > 0, __LINE__)
    call v%read_strings(back, count=[huge(1), huge(1)], step=step, status=status)
    call require(status == DRY_OUT_OF_RANGE .and. size(back) == 0, __LINE__)
    call v%close()
  end subroutine strings

  subroutine rules()
    real(c_double) :: whole(6, 4), wide(2, 2)
    real(c_float) :: part(3, 4)
    integer(c_int8_t) :: small(2, 2)
    integer :: i, j, status
    type(dry_rule) :: rule

    whole = reshape([((real(10*i + j, c_double), i = 0, 5), j = 0, 3)], [6, 4])
    part = -1
    ! `part` is the box at (2, 1) of the array whose box at (0, 0) is `whole`: they share columns 1 to 3.
    call dry_rule_compile(whole, part, rule, dst_start=[2, 1], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "loss") > 0, __LINE__)
    call dry_rule_compile(whole, part, rule, dst_start=[2, 1], narrowing=DRY_SATURATE)
    call rule%apply(whole, part)
    call require(all(part(:, :3) == real(whole(3:5, 2:4), c_float)) .and. all(part(:, 4) == -1), __LINE__)
    call rule%apply(whole(:3, :), part, status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call rule%close()
    wide = reshape([1.d0, 300.d0, -300.d0, 4.d0], [2, 2])
    call dry_rule_compile(wide, small, rule, narrowing=DRY_SATURATE)
    call rule%apply(wide, small)
    call require(all(int(small) == reshape([1, 127, -128, 4], [2, 2])), __LINE__)
    call rule%close()
    call dry_rule_compile(wide, small, rule, src_start=[0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "start has 1 entries, the array 2") > 0, __LINE__)
  end subroutine rules

  subroutine fragments()
    real(c_float) :: half(3) = [1., 2., 3.], back(3), apart(6)
    integer :: status
    type(dry_fragment) :: f
    type(dry_writer) :: w

    call c%declare_text("param n" // new_line("a") // "dataset { var u[2*n] float32 }" // new_line("a") // &
         "fragment half(r) { var u[i:n] = u[i + n*r] }", names=["n"], values=[3])
    call c%open_writer(w)
    call c%open_fragment(f, "half", names=["r"], values=[1])
    call f%write(half, w)
    call f%close()
    call w%close()
    call c%refresh()
    call c%open_fragment(f, "half", names=["r"], values=[1])
    call f%read(back)
    call require(all(half == back), __LINE__)
    call f%read(apart(::2), status=status) ! the right number of values, but not in one piece
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call f%close()
  end subroutine fragments

  ! Symptom: cells beyond 2^31 along one dimension could not be addressed: offsets and shapes were default
  ! integers.
  subroutine far_away()
    integer(int64), parameter :: FAR = 2_int64**31 + 5
    integer(c_int32_t) :: block(4) = [11, 12, 13, 14], back(4), around(6), grown(2)
    integer(int64), allocatable :: found(:, :)
    character(:), allocatable :: texts(:)
    real(c_double) :: wide(4)
    integer :: status
    type(dry_writer) :: w
    type(dry_variable) :: v
    type(dry_rule) :: rule

    call c%create_variable("far", DRY_INT32, [3*2_int64**31])
    call c%create_variable("far/grows", DRY_INT32, [DRY_GROWS], chunks=[4_int64], status=status)
    call require(status == DRY_CONFLICT, __LINE__)
    call c%create_variable("grows", DRY_INT32, [DRY_GROWS, 2_int64])
    call c%create_variable("far names", DRY_STRING, [FAR + 9])
    call c%open_writer(w)
    call w%put("far", block, offset=[FAR])
    call w%put("grows", reshape(block, [2, 2]), offset=[FAR, 0_int64])
    call w%put_strings("far names", ["a ", "bc"], offset=[FAR])
    call w%put("far", block, offset=[2.5], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "the offset is not a list of integers") > 0, __LINE__)
    call w%put("far", block, offset=[-FAR], status=status)
    call require(status == DRY_OUT_OF_RANGE .and. index(dry_message(), "the offset is -2147483653") > 0, __LINE__)
    call w%put_strings("far names", ["a"], offset=["b"], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "not a list of integers") > 0, __LINE__)
    call w%close()

    call c%open_variable(v, "far")
    call v%read(back, offset=[FAR])
    call require(all(back == block), __LINE__)
    call v%read(around, offset=[FAR - 1])
    call require(all(around == [0, 11, 12, 13, 14, 0]), __LINE__)
    call v%read(back(:2), offset=[FAR], stride=[2])
    call v%read(back(3:), offset=[FAR + 3], stride=[-2_int64])
    call require(all(back == [11, 13, 14, 12]), __LINE__)
    call v%read(grown, offset=[0_int64], stride=[FAR + 1]) ! over 2^31 cells
    call require(all(grown == [0, 12]), __LINE__)
    call v%read(back, offset=[5]) ! FAR without what is beyond 32 bits
    call require(all(back == 0), __LINE__)
    call v%read(back, stride=[1.0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "the stride is not a list of integers") > 0, __LINE__)
    call v%find(12_int64, 13_int64, found)
    call require(size(found, 2) == 2, __LINE__)
    call v%read(grown, offset=found(:, 1))
    call require(all(grown == [12, 13]), __LINE__)
    call v%close()
    call c%open_variable(v, "grows")
    call require(all(v%extents() == [FAR + 2, 2_int64]), __LINE__)
    call v%read(grown, offset=[FAR, 1_int64], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call v%close()
    call c%open_variable(v, "far names")
    call v%read_strings(texts, count=[2], offset=[FAR])
    call require(all(texts == ["a ", "bc"]), __LINE__)
    call v%read_strings(texts, count=[2_int64], offset=[FAR])
    call require(all(texts == ["a ", "bc"]), __LINE__)
    call v%read_strings(texts, count=[2], offset=[1.0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "not a list of integers") > 0, __LINE__)
    call v%read_strings(texts, count=[2.0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "not a list of integers") > 0, __LINE__)
    call v%close()

    call c%create_variable("none", DRY_INT32, [2.0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "the shape is not a list of integers") > 0, __LINE__)
    call c%create_variable("none", DRY_INT32, [2], chunks=[2.0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "chunks is not a list of integers") > 0, __LINE__)
    call dry_rule_compile(block, wide, rule, src_start=[FAR], dst_start=[FAR + 1])
    wide = -1
    call rule%apply(block, wide)
    call require(all(int(wide) == [12, 13, 14, -1]), __LINE__)
    call rule%close()
    call dry_rule_compile(block, wide, rule, dst_start=[1.0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "the start is not a list of integers") > 0, __LINE__)
  end subroutine far_away

  ! The callbacks of a program with one rank.
  function gather_one(context, send, size, receive) result(status) bind(c)
    type(c_ptr), value :: context, send, receive
    integer(c_int64_t), value :: size
    integer(c_int32_t) :: status
    integer(c_int8_t), pointer :: from(:), to(:)
    call c_f_pointer(send, from, [size])
    call c_f_pointer(receive, to, [size])
    to = from
    status = merge(0, 1, .not. c_associated(context))
  end function gather_one

  function exchange_one(context, send, send_sizes, receive, receive_sizes) result(status) bind(c)
    type(c_ptr), value :: context, send, receive
    integer(c_int64_t), intent(in) :: send_sizes(*), receive_sizes(*)
    integer(c_int32_t) :: status
    status = gather_one(context, send, send_sizes(1), receive)
    if (send_sizes(1) /= receive_sizes(1)) status = 2
  end function exchange_one

  subroutine team_of_one()
    type(dry_communicator) :: alone
    type(dry_team) :: team
    type(dry_container) :: mine
    type(dry_writer) :: w
    type(dry_variable) :: v
    real(c_double) :: u(3, 2) = reshape([1.d0, 2.d0, 3.d0, 4.d0, 5.d0, 6.d0], [3, 2]), back(3, 2)
    integer :: status

    alone%struct_size = int(c_sizeof(alone), c_int32_t)
    alone%size = 1
    call dry_team_create("team.dry", alone, team, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "NULL") > 0, __LINE__)
    alone%all_gather = c_funloc(gather_one)
    alone%exchange = c_funloc(exchange_one)
    call dry_team_create("team.dry", alone, team, durability=DRY_MEMORY)
    call team%container(mine)
    call mine%create_variable("u", DRY_FLOAT64, [3, 2], steps=.true., status=status)
    call team%agree(status)
    call team%open_writer(w, writers=1)
    call w%begin_step()
    call w%put("u", u)
    call w%end_step()
    call w%close()
    call mine%open_variable(v, "u")
    call v%read(back, step=0)
    call require(all(back == u), __LINE__)
    back = 0
    call v%read(back(3:1:-2, :), step=0, stride=[2, 1], team=team)
    call require(all(back(3, :) == u(1, :)) .and. all(back(1, :) == u(3, :)), __LINE__)
    call v%read(back, step=1, team=team, status=status)
    call require(status == DRY_OUT_OF_RANGE, __LINE__)
    call v%close()
    call team%agree(DRY_IO, status)
    call require(status == DRY_IO, __LINE__)
    call mine%close()
    call team%close()
    call dry_team_open("team.dry", alone, team, mode=DRY_READ_WRITE)
    call team%close()
  end subroutine team_of_one

  ! Listed cells, cells by value, and the published replica.
  subroutine searching()
    real(c_double) :: field(6, 5), some(3)
    integer(c_int32_t) :: numbers(4) = [5, -1, 7, 9]
    integer(int64) :: cells(2, 3) = reshape([0_int64, 0_int64, 5_int64, 4_int64, 2_int64, 1_int64], [2, 3])
    integer(int64), allocatable :: found(:, :)
    integer(int64) :: snapshot, written, kept, skipped
    integer :: i, j, step, status
    logical :: there
    type(dry_writer) :: w
    type(dry_variable) :: v

    call c%create_variable("searched", DRY_FLOAT64, [6, 5], dims=["x", "y"], steps=.true.)
    call c%create_variable("numbers", DRY_INT32, [4])
    call c%open_writer(w, rank=0, nranks=1)
    do step = 0, 1
       do j = 1, 5
          do i = 1, 6
             field(i, j) = 100*step + 10*(j - 1) + (i - 1)
          end do
       end do
       call w%begin_step(step)
       call w%put("searched", field)
       call w%end_step()
    end do
    call w%close()
    call c%open_writer(w)
    call w%put("numbers", numbers)
    call w%close()

    call c%open_variable(v, "searched")
    call v%read_points(some, cells, step=1)
    call require(all(abs(some - [100.d0, 145.d0, 112.d0]) < 1e-9), __LINE__)
    call v%read_points(some(3:1:-1), cells, steps=[0, 1, 0])
    call require(all(abs(some - [12.d0, 145.d0, 0.d0]) < 1e-9), __LINE__)
    call v%read_points(some(:2), cells, step=0, status=status) ! three cells do not fit in two
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call v%read_points(some, cells, steps=[0, 1], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call v%read_points(some, cells, status=status) ! of which step?
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call v%read_points(some, 2*cells, step=0, status=status)
    call require(status == DRY_OUT_OF_RANGE, __LINE__)
    call v%find(21.5d0, 23d0, found, step=0)
    call require(all(shape(found) == [2, 2]), __LINE__)
    call require(all(found(:, 1) == [2, 2]) .and. all(found(:, 2) == [3, 2]), __LINE__)
    call v%read_points(some(:2), found, step=1)
    call require(all(abs(some(:2) - [122.d0, 123.d0]) < 1e-9), __LINE__)
    call v%find(900d0, 901d0, found, step=0)
    call require(size(found, 2) == 0, __LINE__)
    call v%find(0d0, 1d0, found, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. size(found) == 0, __LINE__)
    call v%close()
    call c%open_variable(v, "numbers")
    call v%find(-3_int64, 5_int64, found)
    call require(all(found(1, :) == [0, 1]), __LINE__)
    call v%close()

    call c%publish(variables=["searched", "numbers "], compressor="none", snapshot=snapshot, written=written, skipped=skipped)
    call require(snapshot > 0 .and. written >= 2 .and. skipped == 0, __LINE__)
    inquire (file="arrays.dry/zarr/searched/zarr.json", exist=there)
    call require(there, __LINE__)
    call c%publish(variables=["searched", "numbers "], compressor="none", written=written, kept=kept)
    call require(written == 0 .and. kept >= 2, __LINE__)
    call c%publish(variables=["nowhere"], status=status)
    call require(status == DRY_NOT_FOUND .and. index(dry_message(), "nowhere") > 0, __LINE__)
  end subroutine searching

  subroutine failures()
    integer :: status
    real(c_float) :: wrong(3)
    real(c_double) :: numbers(2) = [1.5d0, 2.5d0], back(2)
    logical :: odd(3) = .true.
    real(selected_real_kind(30)) :: quad(2) = 1
    character(:), allocatable :: text
    type(dry_container) :: none
    type(dry_variable) :: v
    type(dry_writer) :: w

    call dry_open("nowhere.dry", none, status=status)
    call require(status == DRY_NOT_FOUND .and. index(dry_message(), "nowhere.dry") > 0, __LINE__)
    call c%set_attribute("t", "numbers", numbers)
    call c%get_attribute("t", "numbers", back)
    call require(all(numbers == back), __LINE__)
    call c%get_attribute("t", "numbers", wrong, status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call c%get_text_attribute("t", "nothing", text, status)
    call require(status == DRY_NOT_FOUND .and. text == "", __LINE__)
    call c%set_text_attribute("", "title", "a text", status)
    call c%get_text_attribute("", "title", text)
    call require(status == DRY_OK .and. text == "a text", __LINE__)
    call c%open_variable(v, "t/g")
    call v%read(wrong, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "convert it first") > 0, __LINE__)
    call v%read(back, offset=[2], status=status)
    call require(status == DRY_OUT_OF_RANGE, __LINE__)
    call v%read(back, offset=[0, 0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "offset has 2 entries, the array 1") > 0, __LINE__)
    call v%read(back, stride=[1, 1], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "stride has 2 entries") > 0, __LINE__)
    call v%read(back, stride=[0], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "a stride is 0") > 0, __LINE__)
    call assumed_size(v, numbers)
    call v%read(back, offset=[-3], status=status)
    call require(status == DRY_OUT_OF_RANGE .and. index(dry_message(), "the offset is -3 in dimension 1") > 0, __LINE__)
    call v%close()
    call v%read(back, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "NULL") > 0, __LINE__)
    call c%open_writer(w)
    call w%put("t/l", odd, status=status) ! a logical of four bytes
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "logical of 4 bytes") > 0, __LINE__)
    call w%put("t/g", quad, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "16 bytes") > 0, __LINE__)
    call w%put("t/g", back, offset=[1, 2], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "offset has 2 entries, the array 1") > 0, __LINE__)
    call w%put("t/g", back, offset=[-1], status=status)
    call require(status == DRY_OUT_OF_RANGE .and. index(dry_message(), "the offset is -1 in dimension 1") > 0, __LINE__)
    call w%put("t/g", back, offset=[2], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call w%close()
    call c%create_variable("sliced", DRY_FLOAT32, [4, 4, 4], access="plane:0 60%, box:2")
    call c%create_variable("sliced too", DRY_FLOAT32, [4, 4, 4], access="plain:0", status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "plain") > 0, __LINE__)
    call lists_of_other_lengths()
  end subroutine failures

  !> Symptom: for memory of unknown size, or no memory, nothing was put or read, without a failure.
  subroutine assumed_size(v, numbers)
    type(dry_variable), intent(in) :: v
    real(c_double), intent(inout) :: numbers(*)
    real(c_double), allocatable :: none(:)
    type(dry_writer) :: w
    integer :: status

    call c%open_writer(w)
    call w%put("t/g", numbers, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "assumed size") > 0, __LINE__)
    call v%read(numbers, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "assumed size") > 0, __LINE__)
    call c%set_attribute("t", "none", numbers, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "assumed size") > 0, __LINE__)
    call c%get_attribute("t", "numbers", numbers, status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call w%put("t/g", none, status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "not allocated") > 0, __LINE__)
    call w%put("t/g", numbers(2:1)) ! no cells
    call w%close()
    call v%read(numbers(2:1))
    call v%read(numbers(:2))
  end subroutine assumed_size

  !> Lists that are too long or too short are refused: no entry is ignored.
  subroutine lists_of_other_lengths()
    character(*), parameter :: TEXT = "param n" // achar(10) // "dataset { var u[2*n] float32 }"
    integer :: status, i
    integer(c_int8_t) :: deep(1, 1, 1, 1, 1, 1, 1, 1, 1)
    type(dry_writer) :: w

    deep = 0
    call c%create_variable("named", DRY_FLOAT32, [4, 4], dims=["x", "y", "z"], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "dims has 3 entries, the shape has 2") > 0, __LINE__)
    call c%create_variable("named", DRY_FLOAT32, [4, 4], dims=["x"], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "dims has 1 entries") > 0, __LINE__)
    call c%create_variable("named", DRY_FLOAT32, [(4, i=1, 8)], chunks=[(2, i=1, 9)], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call c%create_variable("named", DRY_INT8, [4, 4], dims=["x", "y"])
    call c%open_writer(w)
    call w%put("named", deep, offset=[(0, i=1, 9)], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call w%put("named", deep(:, :, 1, 1, 1, 1, 1, 1, 1), offset=[(0, i=1, 20)], status=status)
    call require(status == DRY_INVALID_ARGUMENT, __LINE__)
    call w%put("named", deep(:, :, 1, 1, 1, 1, 1, 1, 1), offset=[3, 3])
    call w%close()
    call c%declare_text(TEXT, ["n", "m"], [3], status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "name of a parameter") > 0, __LINE__)
    call c%declare_text(TEXT, values=[3], status=status)
    call require(status == DRY_INVALID_ARGUMENT .and. index(dry_message(), "name of a parameter") > 0, __LINE__)
  end subroutine lists_of_other_lengths
end program arrays
