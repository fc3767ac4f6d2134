!> Drystone with MPI from Fortran: the communicator of a team from MPI's. Compile drystone_mpi.c with it, by the same
!> MPI.
!>
!>     call dry_mpi_communicator(MPI_COMM_WORLD%MPI_VAL, communicator)     ! of `use mpi_f08`
!>     call dry_mpi_communicator(MPI_COMM_WORLD, communicator)             ! of `use mpi`
module drystone_mpi
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32
  use drystone
  implicit none
  private
  public :: dry_mpi_communicator, dry_mpi_free

  interface
     function c_communicator(comm, communicator) result(status) bind(c, name="dry_mpi_communicator_f")
       import
       integer(c_int), value :: comm
       type(dry_communicator), intent(inout) :: communicator
       integer(c_int32_t) :: status
     end function c_communicator
     !> Frees the duplicate of MPI's communicator, after the team is closed and before MPI_Finalize. Collective.
     subroutine dry_mpi_free(communicator) bind(c)
       import
       type(dry_communicator), intent(inout) :: communicator
     end subroutine dry_mpi_free
  end interface

contains

  !> Makes a communicator from a duplicate of MPI's. Collective.
  subroutine dry_mpi_communicator(comm, communicator, status)
    integer, intent(in) :: comm
    type(dry_communicator), intent(out) :: communicator
    integer(int32), intent(out), optional :: status
    integer(c_int32_t) :: code

    code = c_communicator(int(comm, c_int), communicator)
    if (present(status)) then
       status = code
    else if (code /= DRY_OK) then
       write (error_unit, '(a)') "drystone: MPI made no communicator"
       error stop 1
    end if
  end subroutine dry_mpi_communicator
end module drystone_mpi
