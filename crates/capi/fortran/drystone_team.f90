!> A container that all ranks of a program have opened together. Programs use `drystone`.
module drystone_team
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32
  use drystone_bindings
  use drystone_arguments
  use drystone_container, only: dry_container
  use drystone_variable, only: dry_ranks
  use drystone_writer, only: dry_writer
  implicit none
  private
  public :: dry_team_create, dry_team_open

  !> A container that all ranks of a program have opened. Its procedures except `close` and `container` are
  !> collective.
  type, extends(dry_ranks), public :: dry_team
   contains
     procedure :: close => team_close
     procedure :: container => team_container
     procedure :: agree => team_agree
     procedure :: open_writer => team_open_writer
  end type dry_team

contains

  !> Creates a container on all ranks.
  subroutine dry_team_create(path, communicator, team, durability, status)
    character(*), intent(in) :: path
    type(dry_communicator), intent(in) :: communicator
    type(dry_team), intent(out) :: team
    integer(int32), intent(in), optional :: durability
    integer(int32), intent(out), optional :: status
    call settle(c_team_create(c_text(path), chosen(durability, DRY_ASYNC), communicator, team%handle), status)
  end subroutine dry_team_create

  !> Opens a container on all ranks: DRY_READ (the default), DRY_READ_WRITE, or DRY_APPEND.
  subroutine dry_team_open(path, communicator, team, mode, status)
    character(*), intent(in) :: path
    type(dry_communicator), intent(in) :: communicator
    type(dry_team), intent(out) :: team
    integer(int32), intent(in), optional :: mode
    integer(int32), intent(out), optional :: status
    call settle(c_team_open(c_text(path), chosen(mode, DRY_READ), communicator, team%handle), status)
  end subroutine dry_team_open

  subroutine team_close(self, status)
    class(dry_team), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_team_close(taken(self%handle)), status)
  end subroutine team_close

  !> A handle of this rank's container, for reading, or on one rank for schema changes; close it separately.
  subroutine team_container(self, container, status)
    class(dry_team), intent(in) :: self
    type(dry_container), intent(out) :: container
    integer(int32), intent(out), optional :: status
    call settle(c_team_container(self%handle, container%handle), status)
  end subroutine team_container

  !> Shares the status of all ranks: `mine` is the status of this rank's last action (default: DRY_OK). If none
  !> failed, all see variables that one of them created, or a recovery that it made.
  subroutine team_agree(self, mine, status)
    class(dry_team), intent(in) :: self
    integer(int32), intent(in), optional :: mine
    integer(int32), intent(out), optional :: status
    call settle(c_team_agree(self%handle, chosen(mine, DRY_OK)), status)
  end subroutine team_agree

  !> Opens the writer of all ranks together; `writers` ranks write (default: the cheapest number).
  subroutine team_open_writer(self, writer, writers, status)
    class(dry_team), intent(in) :: self
    type(dry_writer), intent(out) :: writer
    integer, intent(in), optional :: writers
    integer(int32), intent(out), optional :: status
    integer(c_int32_t) :: many

    many = 0
    if (present(writers)) many = int(writers, c_int32_t)
    call settle(c_team_writer(self%handle, many, writer%handle), status)
  end subroutine team_open_writer
end module drystone_team
