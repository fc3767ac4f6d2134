!> Drystone in Fortran: containers, writers, variables, fragments, rules and teams as derived types with procedures.
!>
!> What holds everywhere
!> - `status`, if present, gets a DRY_ code. Without it, a failure ends the program with its message. dry_message() is
!>   the message of this thread's last failure.
!> - Arrays have any rank, memory layout and type that C supports: integer and real of c_ kinds, complex,
!>   logical(c_bool), character (DRY_BYTES of that length), and bind(c) types (records). Sections are read and written
!>   in place.
!> - The first index varies fastest. An array (nx, ny, nz) here is (nz, ny, nx) in C and Python: the same bytes.
!> - Offsets and steps count from 0.
!>
!> Compile this file only: it includes the modules beside it, and re-exports what they offer.
include "drystone_bindings.f90"
include "drystone_arguments.f90"
include "drystone_writer.f90"
include "drystone_variable.f90"
include "drystone_fragment.f90"
include "drystone_rule.f90"
include "drystone_region.f90"
include "drystone_container.f90"
include "drystone_team.f90"

module drystone
  use drystone_bindings
  use drystone_arguments, only: dry_message
  use drystone_container, only: dry_container, dry_member, dry_create, dry_open, dry_offset
  use drystone_fragment, only: dry_fragment
  use drystone_region, only: dry_region
  use drystone_rule, only: dry_rule, dry_rule_compile
  use drystone_team, only: dry_team, dry_team_create, dry_team_open
  use drystone_variable, only: dry_variable
  use drystone_writer, only: dry_writer
  implicit none
  private

  public :: DRY_OK, DRY_NOT_FOUND, DRY_CORRUPT, DRY_CONFLICT, DRY_UNSUPPORTED, DRY_INVALID_ARGUMENT, DRY_OUT_OF_RANGE, DRY_IO, &
       DRY_CANCELLED, DRY_BUFFER_TOO_SMALL, DRY_INTERNAL, DRY_PERMISSION, DRY_DEADLINE, &
       DRY_NOT_YET_HOME
  public :: DRY_BOOL, DRY_INT8, DRY_INT16, DRY_INT32, DRY_INT64, DRY_UINT8, DRY_UINT16, DRY_UINT32, DRY_UINT64, DRY_FLOAT32, &
       DRY_FLOAT64, DRY_COMPLEX64, DRY_COMPLEX128, DRY_BYTES, DRY_STRING, DRY_RECORD, DRY_RAGGED
  public :: DRY_ASYNC, DRY_DURABLE, DRY_MEMORY, DRY_READ, DRY_READ_WRITE, DRY_APPEND, DRY_ADOPT_ALL, DRY_ADOPT_NONE, &
       DRY_REFUSE, DRY_SATURATE, DRY_WRAP, DRY_NO_STEP, DRY_GROWS
  public :: DRY_MAP_READ, DRY_MAP_WRITE, DRY_RECEIVED, DRY_NODE, DRY_HOME, DRY_STABLE
  public :: dry_communicator
  public :: dry_container, dry_writer, dry_variable, dry_fragment, dry_rule, dry_team, dry_member, dry_region
  public :: dry_create, dry_open, dry_team_create, dry_team_open, dry_rule_compile, dry_message, dry_offset
end module drystone
