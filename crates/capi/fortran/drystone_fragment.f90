!> Instances of declared fragments. Programs use `drystone`.
module drystone_fragment
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32
  use drystone_bindings
  use drystone_arguments
  use drystone_writer, only: dry_writer
  implicit none
  private

  !> An instance of a declared fragment.
  type, public :: dry_fragment
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => fragment_close
     procedure :: read => fragment_read
     procedure :: write => fragment_write
  end type dry_fragment

contains

  subroutine fragment_close(self, status)
    class(dry_fragment), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_fragment_close(taken(self%handle)), status)
  end subroutine fragment_close

  !> Fills contiguous memory of the fragment's size.
  subroutine fragment_read(self, memory, step, status)
    class(dry_fragment), intent(in) :: self
    type(*), dimension(..), intent(inout) :: memory
    integer, intent(in), optional :: step
    integer(int32), intent(out), optional :: status
    call settle(c_fragment_read(self%handle, step_given(step), memory), status)
  end subroutine fragment_read

  !> Writes contiguous memory of the fragment's size through a writer.
  subroutine fragment_write(self, memory, writer, status)
    class(dry_fragment), intent(in) :: self
    type(*), dimension(..), intent(in) :: memory
    type(dry_writer), intent(in) :: writer
    integer(int32), intent(out), optional :: status
    call settle(c_fragment_write(self%handle, writer%handle, memory), status)
  end subroutine fragment_write
end module drystone_fragment
