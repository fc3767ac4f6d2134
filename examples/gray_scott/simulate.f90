! The simulation of simulate.py and simulate.c in Fortran: the same equations, the same container, the same bits.
!
!     mpiexec -n 8 simulate run.dry --grid 64 --outputs 12 --interval 50
!     mpiexec -n 6 simulate run.dry --outputs 20 --restart          (also a container of the others)
!
! Compile it with the modules drystone and drystone_mpi by mpifort, with -ffp-contract=off (every compiler then
! computes the same sequence of single operations) and -fwrapv (the noise uses integers that wrap around).
program simulate
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use mpi_f08
  use drystone
  use drystone_mpi
  implicit none

  type :: model
     real(real64) :: du = 0.8_real64, dv = 0.4_real64, f = 0.025_real64, k = 0.055_real64, dt = 1.0_real64
     integer(int64) :: seed = 42, interval = 50
  end type model

  ! This rank's box (x, y, z) of the periodic grid, and its neighbours below and above along each axis.
  type :: place
     type(MPI_Comm) :: comm
     integer :: grid(3), offset(3), count(3), below(3), above(3)
  end type place

  character(1), parameter :: names(2) = ["U", "V"]
  integer :: rank, ranks
  type(model) :: m
  type(place) :: p
  type(dry_communicator) :: communicator
  type(dry_team) :: team
  type(dry_container) :: container
  type(dry_writer) :: writer
  real(real64), allocatable :: u(:, :, :), v(:, :, :) ! padded by one cell on every side
  character(4096) :: path
  character(:), allocatable :: transform
  integer :: grid(3) = 64, outputs = 12, first = 0, durability = DRY_ASYNC, step, i, status, agreed
  logical :: restarting = .false.

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  call dry_mpi_communicator(MPI_COMM_WORLD%MPI_VAL, communicator)
  if (restarting) then
     call dry_team_open(path, communicator, team, mode=DRY_READ_WRITE, status=status)
  else
     call dry_team_create(path, communicator, team, durability=durability, status=status)
  end if
  call ok(status)
  call team%container(container, status)
  call ok(status)
  if (rank == 0) then ! the others see its changes
     if (restarting) then
        call container%recover(status=status)
     else
        call create_variables(status)
     end if
  end if
  call team%agree(status, agreed)
  call ok(agreed)
  if (restarting) call restart()

  p = divided()
  allocate (u(0:p%count(1) + 1, 0:p%count(2) + 1, 0:p%count(3) + 1))
  allocate (v, mold=u)
  if (restarting) then
     call load("U", u)
     call load("V", v)
  else
     call initial_state()
  end if

  call team%open_writer(writer, status=status)
  call ok(status)
  if (.not. restarting) call store(0)
  do step = first + 1, outputs
     do i = 1, int(m%interval)
        call exchange(u)
        call exchange(v)
        call advance()
     end do
     call store(step)
  end do
  call writer%close(status)
  call ok(status)
  call container%close()
  call team%close()
  call dry_mpi_free(communicator)
  call MPI_Comm_free(p%comm)
  call MPI_Finalize()

contains

  ! A failure of one rank ends all: collective calls fail on all ranks, and any other failure here ends the
  ! program.
  subroutine ok(code)
    integer, intent(in) :: code
    if (code == DRY_OK) return
    write (error_unit, '(a,i0,2a)') "simulate: rank ", rank, ": ", dry_message()
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine ok

  subroutine give_up(what, code)
    character(*), intent(in) :: what
    integer, intent(in) :: code
    if (rank == 0) write (error_unit, '(2a)') "simulate: ", what
    call MPI_Finalize()
    stop code, quiet=.true.
  end subroutine give_up

  subroutine read_arguments()
    character(*), parameter :: usage = &
         "usage: simulate CONTAINER [--grid N] [--outputs N] [--interval N] [--transform TEXT] [--durable] [--restart]"
    character(4096) :: word, value
    integer :: at, number, bad

    if (command_argument_count() < 1) call give_up(usage, 2)
    call get_command_argument(1, path)
    at = 2
    do while (at <= command_argument_count())
       call get_command_argument(at, word)
       if (word == "--restart") then
          restarting = .true.
       else if (word == "--durable") then
          durability = DRY_DURABLE
       else
          if (at == command_argument_count()) call give_up(usage, 2)
          at = at + 1
          call get_command_argument(at, value)
          number = 0
          bad = 0
          if (word /= "--transform") read (value, *, iostat=bad) number
          if (bad /= 0) call give_up(usage, 2)
          select case (word)
          case ("--transform"); transform = trim(value)
          case ("--grid"); grid = number
          case ("--outputs"); outputs = number
          case ("--interval"); m%interval = number
          case default; call give_up(usage, 2)
          end select
       end if
       at = at + 1
    end do
    if (grid(1) < 1 .or. outputs < 1 .or. m%interval < 1) call give_up(usage, 2)
  end subroutine read_arguments

  ! ---- the grid and its boxes ----------------------------------------------------------------------------------------

  function divided() result(out)
    type(place) :: out
    integer :: dims(3), at(3), me, axis
    logical, parameter :: around(3) = .true.

    dims = 0
    call MPI_Dims_create(ranks, 3, dims)
    call MPI_Cart_create(MPI_COMM_WORLD, 3, dims, around, .false., out%comm)
    call MPI_Comm_rank(out%comm, me)
    call MPI_Cart_coords(out%comm, me, 3, at)
    out%grid = grid
    out%offset = at*grid/dims
    out%count = (at + 1)*grid/dims - out%offset
    do axis = 1, 3
       call MPI_Cart_shift(out%comm, axis - 1, 1, out%below(axis), out%above(axis))
    end do
    if (any(dims > grid)) call give_up("an axis has too few cells for so many ranks", 1)
  end function divided

  ! Fills the padding of the six faces with the neighbours' cells; edges and corners are not used.
  subroutine exchange(a)
    real(real64), intent(inout), allocatable :: a(:, :, :)
    integer :: x, y, z

    x = p%count(1)
    y = p%count(2)
    z = p%count(3)
    call shift(1, a(x, 1:y, 1:z), a(0, 1:y, 1:z), a(1, 1:y, 1:z), a(x + 1, 1:y, 1:z))
    call shift(2, a(1:x, y, 1:z), a(1:x, 0, 1:z), a(1:x, 1, 1:z), a(1:x, y + 1, 1:z))
    call shift(3, a(1:x, 1:y, z), a(1:x, 1:y, 0), a(1:x, 1:y, 1), a(1:x, 1:y, z + 1))
  end subroutine exchange

  subroutine shift(axis, last, before, first_layer, behind)
    integer, intent(in) :: axis
    real(real64), intent(in) :: last(:, :), first_layer(:, :)
    real(real64), intent(inout) :: before(:, :), behind(:, :)
    real(real64) :: send(size(last, 1), size(last, 2)), receive(size(last, 1), size(last, 2))

    send = last
    call MPI_Sendrecv(send, size(send), MPI_DOUBLE_PRECISION, p%above(axis), 0, receive, size(send), &
         MPI_DOUBLE_PRECISION, p%below(axis), 0, p%comm, MPI_STATUS_IGNORE)
    before = receive
    send = first_layer
    call MPI_Sendrecv(send, size(send), MPI_DOUBLE_PRECISION, p%below(axis), 1, receive, size(send), &
         MPI_DOUBLE_PRECISION, p%above(axis), 1, p%comm, MPI_STATUS_IGNORE)
    behind = receive
  end subroutine shift

  ! ---- the model -----------------------------------------------------------------------------------------------------

  ! A number in [0, 1) for each cell, from its global index only (the SplitMix64 finaliser).
  function noise(number, seed) result(found)
    integer(int64), intent(in) :: number, seed
    real(real64) :: found
    integer(int64) :: z

    z = number + seed*int(z'9E3779B97F4A7C15', int64)
    z = ieor(z, shiftr(z, 30))*int(z'BF58476D1CE4E5B9', int64)
    z = ieor(z, shiftr(z, 27))*int(z'94D049BB133111EB', int64)
    z = ieor(z, shiftr(z, 31))
    found = real(shiftr(z, 11), real64)*2.0_real64**(-53)
  end function noise

  subroutine initial_state()
    integer :: x, y, z, g(3)
    integer(int64) :: number
    logical :: inside

    u = 0
    v = 0
    do z = 1, p%count(3)
       do y = 1, p%count(2)
          do x = 1, p%count(1)
             g = p%offset + [x, y, z] - 1
             number = (int(g(3), int64)*grid(2) + g(2))*grid(1) + g(1)
             inside = mod(g(3), 12) < 3 .and. mod(g(2), 16) < 4 .and. mod(g(1), 12) < 3
             u(x, y, z) = merge(0.5_real64, 1.0_real64, inside) - 0.02_real64*noise(number, m%seed)
             v(x, y, z) = merge(0.25_real64, 0.0_real64, inside) + 0.02_real64*noise(number, m%seed + 1)
          end do
       end do
    end do
  end subroutine initial_state

  ! One time step: the operations of reaction.py in the same order, each rounded.
  subroutine advance()
    real(real64), allocatable :: un(:, :, :), vn(:, :, :)
    real(real64) :: du, dv, feed, keep_u, keep_v, sum_u, sum_v, uvv
    integer :: x, y, z

    allocate (un, vn, mold=u)
    du = m%dt*m%du/6
    dv = m%dt*m%dv/6
    feed = m%dt*m%f
    keep_u = 1 - m%dt*(m%du + m%f)
    keep_v = 1 - m%dt*((m%dv + m%f) + m%k)
    do z = 1, p%count(3)
       do y = 1, p%count(2)
          do x = 1, p%count(1)
             sum_u = u(x, y, z - 1) + u(x, y, z + 1)
             sum_v = v(x, y, z - 1) + v(x, y, z + 1)
             uvv = v(x, y, z)*v(x, y, z)
             sum_u = sum_u + (u(x, y - 1, z) + u(x, y + 1, z))
             sum_u = sum_u + (u(x - 1, y, z) + u(x + 1, y, z))
             sum_v = sum_v + (v(x, y - 1, z) + v(x, y + 1, z))
             sum_v = sum_v + (v(x - 1, y, z) + v(x + 1, y, z))
             uvv = uvv*u(x, y, z)
             uvv = uvv*m%dt
             sum_u = sum_u*du
             sum_u = sum_u + u(x, y, z)*keep_u
             sum_u = sum_u - uvv
             un(x, y, z) = sum_u + feed
             sum_v = sum_v*dv
             sum_v = sum_v + v(x, y, z)*keep_v
             vn(x, y, z) = sum_v + uvv
          end do
       end do
    end do
    call move_alloc(un, u)
    call move_alloc(vn, v)
  end subroutine advance

  ! ---- the container -------------------------------------------------------------------------------------------------

  ! What rank 0 creates first: the variables, and the model as their attributes.
  subroutine create_variables(code)
    integer, intent(out) :: code
    integer :: n

    do n = 1, 2
       call container%create_variable(names(n), DRY_FLOAT64, shape=grid, dims=["x", "y", "z"], steps=.true., &
            transform=transform, status=code)
       if (code == DRY_OK) call container%set_attribute(names(n), "Du", m%du, code)
       if (code == DRY_OK) call container%set_attribute(names(n), "Dv", m%dv, code)
       if (code == DRY_OK) call container%set_attribute(names(n), "F", m%f, code)
       if (code == DRY_OK) call container%set_attribute(names(n), "k", m%k, code)
       if (code == DRY_OK) call container%set_attribute(names(n), "dt", m%dt, code)
       if (code == DRY_OK) call container%set_attribute(names(n), "seed", m%seed, code)
       if (code == DRY_OK) call container%set_attribute(names(n), "interval", m%interval, code)
       if (code /= DRY_OK) return
    end do
  end subroutine create_variables

  ! The model, the grid and the last complete step of a container.
  subroutine restart()
    type(dry_variable) :: field
    integer(int64), allocatable :: extents(:)

    call container%open_variable(field, "U", status=status)
    call ok(status)
    allocate (extents, source=field%extents())
    first = int(field%step_axis()) - 1
    call field%close()
    if (first < 0) call give_up("there is no complete step to restart from: start a new run", 1)
    if (size(extents) /= 3) call give_up("U is no array of three dimensions", 1)
    grid = int(extents)
    call attribute("Du", m%du)
    call attribute("Dv", m%dv)
    call attribute("F", m%f)
    call attribute("k", m%k)
    call attribute("dt", m%dt)
    call container%get_attribute("U", "seed", m%seed, status)
    call ok(status)
    call container%get_attribute("U", "interval", m%interval, status)
    call ok(status)
  end subroutine restart

  subroutine attribute(name, value)
    character(*), intent(in) :: name
    real(real64), intent(inout) :: value
    call container%get_attribute("U", name, value, status)
    call ok(status)
  end subroutine attribute

  ! Reads this rank's box of a step, whichever rank wrote it, into the padded memory.
  subroutine load(name, a)
    character(*), intent(in) :: name
    real(real64), intent(inout), allocatable :: a(:, :, :)
    type(dry_variable) :: field

    a = 0
    call container%open_variable(field, name, status=status)
    call ok(status)
    call field%read(a(1:p%count(1), 1:p%count(2), 1:p%count(3)), step=first, offset=p%offset, team=team, status=status)
    call ok(status)
    call field%close()
  end subroutine load

  ! One output step of all ranks; when it returns, the step is visible.
  subroutine store(number)
    integer, intent(in) :: number

    call writer%begin_step(step=number, status=status)
    call ok(status)
    call writer%put("U", u(1:p%count(1), 1:p%count(2), 1:p%count(3)), offset=p%offset, status=status)
    call ok(status)
    call writer%put("V", v(1:p%count(1), 1:p%count(2), 1:p%count(3)), offset=p%offset, status=status)
    call ok(status)
    call writer%end_step(status)
    call ok(status)
  end subroutine store
end program simulate
