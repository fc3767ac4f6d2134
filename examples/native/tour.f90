! Writes two steps of a field, block by block, or reads a container of any of the tours:  tour write|read CONTAINER
program tour
  use, intrinsic :: iso_fortran_env, only: real64, error_unit
  use drystone
  implicit none
  ! The first index varies fastest: (z, y, x) in C is (x, y, z) here, with the same bytes.
  integer, parameter :: nx = 5, ny = 6, nz = 8, last = 1
  character(4096) :: act, path

  call get_command_argument(1, act)
  call get_command_argument(2, path)
  select case (act)
  case ("write")
     call write_all()
  case ("read")
     call read_all()
  case default
     write (error_unit, '(a)') "usage: tour write|read CONTAINER"
     error stop 2
  end select

contains

  elemental function cell(t, z, y, x) result(found)
    integer, intent(in) :: t, z, y, x
    real(real64) :: found
    found = 1000*t + 100*z + 10*y + x
  end function cell

  subroutine write_all()
    type(dry_container) :: container
    type(dry_writer) :: writer
    real(real64) :: field(nx, ny, nz)
    integer :: t, x, y, z

    call dry_create(path, container)
    call container%create_variable("temperature", DRY_FLOAT64, shape=[nx, ny, nz], dims=["x", "y", "z"], &
         steps=.true., transform="shuffle,zstd:1")
    call container%set_text_attribute("temperature", "units", "K")
    call container%set_attribute("temperature", "interval", 0.5_real64)
    call container%open_writer(writer, rank=0, nranks=1) ! the only rank: ending a step commits it
    do t = 0, last
       field = reshape([(((cell(t, z, y, x), x = 0, nx - 1), y = 0, ny - 1), z = 0, nz - 1)], shape(field))
       call writer%begin_step()
       do z = 0, nz - 1, 2
          call writer%put("temperature", field(:, :, z + 1:z + 2), offset=[0, 0, z])
       end do
       call writer%end_step()
    end do
    call writer%close()
    call container%close()
  end subroutine write_all

  subroutine read_all()
    type(dry_container) :: container
    type(dry_variable) :: temperature
    real(real64) :: field(nx, ny, nz), plane(nx, 1, nz), first(1, 1, 1), second(1, 1, 1), interval
    character(:), allocatable :: units
    integer :: t, x, y, z

    call dry_open(path, container)
    call container%open_variable(temperature, "temperature")
    call container%get_text_attribute("temperature", "units", units)
    call container%get_attribute("temperature", "interval", interval)
    call expect(units == "K" .and. interval == 0.5_real64, "attributes")
    call expect(all(temperature%extents() == [nx, ny, nz]) .and. temperature%step_axis() == last + 1, "the shape")
    do t = 0, last
       call temperature%read(field, step=t)
       call expect(all(field == reshape([(((cell(t, z, y, x), x = 0, nx - 1), y = 0, ny - 1), z = 0, nz - 1)], &
            shape(field))), "a cell")
    end do
    call temperature%read(plane, step=1, offset=[0, 3, 0])
    call expect(plane(5, 1, 3) == cell(1, 2, 3, 4), "a cell of the plane y = 3")
    call temperature%read(first, step=0, offset=[4, 5, 7])
    call temperature%read(second, step=1, offset=[4, 5, 7])
    call expect(second(1, 1, 1) - first(1, 1, 1) == 1000, "the change of the last cell")
    call temperature%close()
    call container%close()
  end subroutine read_all

  subroutine expect(so, what)
    logical, intent(in) :: so
    character(*), intent(in) :: what
    if (so) return
    write (error_unit, '(2a)') "tour: wrong: ", what
    error stop 1
  end subroutine expect
end program tour
