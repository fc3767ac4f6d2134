!> A writer: each rank has its own log. Programs use `drystone`.
module drystone_writer
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use drystone_bindings
  use drystone_arguments
  implicit none
  private

  !> A writer, with its own log for each rank.
  type, public :: dry_writer
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => writer_close
     procedure :: begin_step
     procedure :: end_step
     procedure :: abort_step
     procedure :: put
     procedure :: put_strings
     procedure :: put_lists
     procedure :: put_member
     procedure :: put_member_strings
     procedure :: put_member_lists
  end type dry_writer

contains

  !> Closes the writer, and commits its values without a step.
  subroutine writer_close(self, status)
    class(dry_writer), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_writer_close(taken(self%handle)), status)
  end subroutine writer_close

  !> Begins a step: the given one, or the next.
  subroutine begin_step(self, step, replace, begun, status)
    class(dry_writer), intent(in) :: self
    integer, intent(in), optional :: step
    logical, intent(in), optional :: replace
    integer(int64), intent(out), optional :: begun
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: number

    number = -1
    call settle(c_begin_step(self%handle, step_given(step), flag(replace), number), status)
    if (present(begun)) begun = number
  end subroutine begin_step

  !> Ends the step; with one rank it is committed.
  subroutine end_step(self, status)
    class(dry_writer), intent(in) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_end_step(self%handle, c_null_ptr), status)
  end subroutine end_step

  !> Drops the open step.
  subroutine abort_step(self, status)
    class(dry_writer), intent(in) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_abort_step(self%handle), status)
  end subroutine abort_step

  !> Writes a block, of whole elements or of one member of records; `offset` counts the cells before it in each
  !> dimension. Characters for a member are refused here: see put_member.
  subroutine put(self, path, data, offset, member, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path
    type(*), dimension(..), intent(in) :: data
    class(*), intent(in), optional :: offset(:)
    character(*), intent(in), optional :: member
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS)
    integer(c_int32_t) :: count
    character(kind=c_char), allocatable, target :: field(:)
    type(c_ptr) :: field_given, place_given

    integer(c_int32_t) :: fits

    if (present(member)) then
       ! gfortran passes a length for characters in `data`, which stands here for that of `member`.
       fits = c_fits_member(data)
       if (fits /= 0) then
          call settle(fits, status)
          return
       end if
    end if
    call convert_text(member, field, field_given)
    call convert_place(offset, place, count, place_given)
    call settle(c_put(self%handle, c_text(path), field_given, data, count, place_given), status)
  end subroutine put

  !> As put, for a member of records, such as "name". The member stands before the data, which may be characters.
  subroutine put_member(self, path, member, data, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path, member
    type(*), dimension(..), intent(in) :: data
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS)
    integer(c_int32_t) :: count
    character(kind=c_char), allocatable, target :: field(:)
    type(c_ptr) :: field_given, place_given

    call convert_text(member, field, field_given)
    call convert_place(offset, place, count, place_given)
    call settle(c_put(self%handle, c_text(path), field_given, data, count, place_given), status)
  end subroutine put_member

  !> Writes a block of a DRY_STRING variable from an array of character; trailing blanks are dropped.
  subroutine put_strings(self, path, texts, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path
    type(*), dimension(..), intent(in) :: texts
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS)
    integer(c_int32_t) :: count
    type(c_ptr) :: place_given

    call convert_place(offset, place, count, place_given)
    call settle(c_put_strings(self%handle, c_text(path), c_null_ptr, texts, count, place_given), status)
  end subroutine put_strings

  !> As put_strings, for a member of records, such as "name"; of a member that is an array, one element: "words[1]".
  !> The member stands before the texts: gfortran passes a length for these, which would be taken for that of a later
  !> character argument.
  subroutine put_member_strings(self, path, member, texts, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path, member
    type(*), dimension(..), intent(in) :: texts
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS)
    integer(c_int32_t) :: count
    character(kind=c_char), allocatable, target :: field(:)
    type(c_ptr) :: field_given, place_given

    call convert_text(member, field, field_given)
    call convert_place(offset, place, count, place_given)
    call settle(c_put_strings(self%handle, c_text(path), field_given, texts, count, place_given), status)
  end subroutine put_member_strings

  !> Writes a block of a DRY_RAGGED variable: the numbers of all lists, concatenated, and the length of each
  !> list in an array of integers with the shape of the block.
  subroutine put_lists(self, path, numbers, lengths, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path
    type(*), dimension(..), intent(in) :: numbers, lengths
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS)
    integer(c_int32_t) :: count
    type(c_ptr) :: place_given

    call convert_place(offset, place, count, place_given)
    call settle(c_put_lists(self%handle, c_text(path), c_null_ptr, numbers, lengths, count, place_given), status)
  end subroutine put_lists

  !> As put_lists, for a member of records; `member` as in put_member_strings.
  subroutine put_member_lists(self, path, member, numbers, lengths, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path, member
    type(*), dimension(..), intent(in) :: numbers, lengths
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS)
    integer(c_int32_t) :: count
    character(kind=c_char), allocatable, target :: field(:)
    type(c_ptr) :: field_given, place_given

    call convert_text(member, field, field_given)
    call convert_place(offset, place, count, place_given)
    call settle(c_put_lists(self%handle, c_text(path), field_given, numbers, lengths, count, place_given), status)
  end subroutine put_member_lists
end module drystone_writer
