!> A region: a box of a variable with memory that is locked and released while the program continues. Programs
!> use `drystone`.
module drystone_region
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use drystone_bindings
  use drystone_arguments
  implicit none
  private

  !> A box of a variable at one step, with memory for its values. `dry_container%map` makes one.
  type, public :: dry_region
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: memory
     procedure :: lock
     procedure :: release
     procedure :: unlock
     procedure :: unmap
  end type dry_region

contains

  !> Its memory, for c_f_pointer(region%memory(), array, [nx, ny]). After a release, waits until the values have
  !> been read from it.
  function memory(self, status) result(first)
    class(dry_region), intent(in) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: first
    integer(c_int64_t) :: bytes

    first = c_null_ptr
    call settle(c_region_memory(self%handle, first, bytes), status)
  end function memory

  !> Locks it for writing (the default), or with DRY_MAP_READ reads the newest values; for `timeout` seconds
  !> (default: 10).
  subroutine lock(self, access, timeout, status)
    class(dry_region), intent(in) :: self
    integer(int32), intent(in), optional :: access
    real(c_double), intent(in), optional :: timeout
    integer(int32), intent(out), optional :: status
    real(c_double) :: seconds

    seconds = 10
    if (present(timeout)) seconds = timeout
    call settle(c_lock(self%handle, chosen(access, DRY_MAP_WRITE), seconds), status)
  end subroutine lock

  !> Releases the values and ends the lock; returns at `level` (default: DRY_RECEIVED). `transfer` gets a number
  !> to wait for.
  subroutine release(self, level, transfer, status)
    class(dry_region), intent(in) :: self
    integer(int32), intent(in), optional :: level
    integer(int64), intent(out), optional :: transfer
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: number

    number = 0
    call settle(c_release(self%handle, chosen(level, DRY_RECEIVED), number), status)
    if (present(transfer)) transfer = number
  end subroutine release

  !> Ends the lock and drops the values.
  subroutine unlock(self, status)
    class(dry_region), intent(in) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_unlock(self%handle), status)
  end subroutine unlock

  !> Ends the lock and frees the memory.
  subroutine unmap(self, status)
    class(dry_region), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_unmap(taken(self%handle)), status)
  end subroutine unmap
end module drystone_region
