!> A variable of a snapshot: boxes, listed cells, texts, and the cells between two limits. Programs use `drystone`.
module drystone_variable
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use drystone_bindings
  use drystone_arguments
  implicit none
  private

  !> A team, for reads of all its ranks.
  type, public :: dry_ranks
     type(c_ptr) :: handle = c_null_ptr
  end type dry_ranks

  !> A variable of a snapshot.
  type, public :: dry_variable
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => variable_close
     procedure :: read => variable_read
     procedure :: read_strings
     procedure :: list_lengths
     procedure :: read_lists
     procedure :: extents
     procedure :: step_axis
     procedure :: read_points
     procedure, private :: find_real, find_integer
     generic :: find => find_real, find_integer
  end type dry_variable

contains

  subroutine variable_close(self, status)
    class(dry_variable), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_variable_close(taken(self%handle)), status)
  end subroutine variable_close

  !> Fills an array from the box at `offset`, or from every `stride`-th cell; of one step if the variable has
  !> steps. With `team`, all its ranks read together, each its own box.
  subroutine variable_read(self, data, step, offset, stride, team, status)
    class(dry_variable), intent(in) :: self
    type(*), dimension(..), intent(inout) :: data
    integer, intent(in), optional :: step
    class(*), intent(in), optional :: offset(:), stride(:)
    class(dry_ranks), intent(in), optional :: team
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS), by(RANKS)
    integer(c_int32_t) :: places, bys
    type(c_ptr) :: place_given, by_given, team_given

    call convert_place(offset, place, places, place_given)
    call convert_place(stride, by, bys, by_given)
    team_given = c_null_ptr
    if (present(team)) team_given = team%handle
    call settle(c_read(team_given, self%handle, step_given(step), data, places, place_given, bys, by_given), status)
  end subroutine variable_read

  !> The texts of a box of a DRY_STRING variable in the order of their elements, padded with blanks to the
  !> longest one.
  subroutine read_strings(self, texts, count, step, offset, status)
    class(dry_variable), intent(in) :: self
    character(:), allocatable, intent(out) :: texts(:)
    class(*), intent(in) :: count(:)
    integer, intent(in), optional :: step
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS), many(RANKS)
    integer(c_int32_t) :: counts
    type(c_ptr) :: place_given, count_given
    character(kind=c_char), allocatable, target :: buffer(:)
    integer(c_int64_t), allocatable, target :: ends(:)
    integer(c_size_t) :: length, cells
    integer(int32) :: code
    integer :: i, from, longest

    call convert_box(offset, count, place, many, counts, place_given, count_given)
    cells = product(int(many(:min(max(counts, 0), RANKS)), c_size_t))
    length = 0
    code = c_read_strings(self%handle, step_given(step), counts, place_given, count_given, c_null_ptr, 0_c_size_t, length, &
         c_null_ptr, 0_c_size_t)
    if (code /= DRY_OK) cells = 0 ! no memory for cells that do not exist
    allocate (buffer(length + 1), ends(cells))
    if (code == DRY_OK) code = c_read_strings(self%handle, step_given(step), counts, place_given, count_given, c_loc(buffer), &
         length + 1, length, c_loc(ends), cells)
    longest = 0
    from = 0
    if (code == DRY_OK) then
       do i = 1, int(cells)
          longest = max(longest, int(ends(i)) - from)
          from = int(ends(i))
       end do
    end if
    allocate (character(longest) :: texts(merge(int(cells), 0, code == DRY_OK)))
    from = 0
    do i = 1, size(texts)
       texts(i) = joined(buffer(from + 1:), int(ends(i), c_size_t) - from)
       from = int(ends(i))
    end do
    call settle(code, status)
  end subroutine read_strings

  !> The length of each list of a box of a DRY_RAGGED variable, in the order of the box's elements. read_lists
  !> needs an array as long as their sum.
  subroutine list_lengths(self, lengths, count, step, offset, status)
    class(dry_variable), intent(in) :: self
    integer(int64), allocatable, target, intent(out) :: lengths(:)
    class(*), intent(in) :: count(:)
    integer, intent(in), optional :: step
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS), many(RANKS)
    integer(c_int32_t) :: counts
    type(c_ptr) :: place_given, count_given
    integer(c_size_t) :: cells
    integer(int32) :: code

    call convert_box(offset, count, place, many, counts, place_given, count_given)
    cells = product(int(many(:min(max(counts, 0), RANKS)), c_size_t))
    allocate (lengths(0))
    ! Called without lengths first: there is no memory for cells that do not exist.
    code = c_list_lengths(self%handle, step_given(step), counts, place_given, count_given, c_null_ptr, 0_c_size_t)
    if (code == DRY_OK .and. cells > 0) then
       deallocate (lengths)
       allocate (lengths(cells))
       code = c_list_lengths(self%handle, step_given(step), counts, place_given, count_given, c_loc(lengths), cells)
    end if
    call settle(code, status)
  end subroutine list_lengths

  !> Fills an array of one dimension with the numbers of the lists of a box, concatenated, in the order of
  !> list_lengths.
  subroutine read_lists(self, numbers, count, step, offset, status)
    class(dry_variable), intent(in) :: self
    type(*), dimension(..), intent(inout) :: numbers
    class(*), intent(in) :: count(:)
    integer, intent(in), optional :: step
    class(*), intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(RANKS), many(RANKS)
    integer(c_int32_t) :: counts
    type(c_ptr) :: place_given, count_given

    call convert_box(offset, count, place, many, counts, place_given, count_given)
    call settle(c_read_lists(self%handle, step_given(step), counts, place_given, count_given, numbers), status)
  end subroutine read_lists

  !> A box with an offset, or from the beginning. If the numbers of dimensions differ, `counts` becomes invalid.
  subroutine convert_box(offset, count, place, many, counts, place_given, count_given)
    class(*), intent(in), optional :: offset(:)
    class(*), intent(in) :: count(:)
    integer(c_int64_t), target, intent(out) :: place(RANKS), many(RANKS)
    integer(c_int32_t), intent(out) :: counts
    type(c_ptr), intent(out) :: place_given, count_given
    integer(c_int32_t) :: places

    call convert_place(offset, place, places, place_given)
    call convert_place(count, many, counts, count_given)
    if (counts == -1) counts = 0 ! gfortran passes an empty constructor as absent
    if (.not. present(offset)) then
       place = 0
       place_given = c_loc(place)
    else if (places /= counts) then
       counts = merge(NO_INTEGERS, -1_c_int32_t, places == NO_INTEGERS) ! refused: an offset of another number of dimensions
    end if
  end subroutine convert_box

  !> The shape in Fortran's order, without the step axis.
  function extents(self) result(list)
    class(dry_variable), intent(in) :: self
    integer(int64), allocatable :: list(:)
    integer(c_int64_t) :: found(8), length
    integer(c_int32_t) :: ndim
    call settle(c_shape(self%handle, ndim, found, length))
    list = found(:ndim)
  end function extents

  !> Length of the step axis: last step + 1; -1 if the variable has no steps.
  function step_axis(self) result(length)
    class(dry_variable), intent(in) :: self
    integer(int64) :: length
    integer(c_int64_t) :: found(8)
    integer(c_int32_t) :: ndim
    call settle(c_shape(self%handle, ndim, found, length))
  end function step_axis

  !> Reads listed cells into `data`, one element each: cell i is cells(:, i) in Fortran's order, counted from 0;
  !> of one step, or of steps(i).
  subroutine read_points(self, data, cells, step, steps, status)
    class(dry_variable), intent(in) :: self
    type(*), dimension(..), intent(inout) :: data
    integer(int64), intent(in) :: cells(:, :)
    integer, intent(in), optional :: step, steps(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), allocatable, target :: given(:, :)
    integer :: ndim, count, first

    ndim = size(cells, 1)
    count = size(cells, 2)
    first = merge(1, 0, present(step) .or. present(steps))
    allocate (given(first + ndim, max(1, count)))
    if (present(step)) given(1, :) = step
    if (present(steps)) given(1, :min(count, size(steps))) = steps(:min(count, size(steps)))
    given(first + 1:, :count) = cells(ndim:1:-1, :)
    if (present(steps)) then
       if (size(steps) /= count) first = -ndim ! refused: a step for each cell
    end if
    call settle(c_read_points(self%handle, data, int(first + ndim, c_int32_t), c_loc(given), int(count, c_int64_t)), status)
  end subroutine read_points

  !> Finds the cells of a step whose values lie between two limits, inclusive: cells(:, i) in Fortran's order,
  !> counted from
  !> 0. Blocks that cannot contain such a value are not read.
  subroutine find_real(self, low, high, cells, step, status)
    class(dry_variable), intent(in) :: self
    real(c_double), intent(in), target :: low, high
    integer(int64), allocatable, intent(out) :: cells(:, :)
    integer, intent(in), optional :: step
    integer(int32), intent(out), optional :: status
    call find(self, DRY_FLOAT64, c_loc(low), c_loc(high), cells, step_given(step), status)
  end subroutine find_real

  subroutine find_integer(self, low, high, cells, step, status)
    class(dry_variable), intent(in) :: self
    integer(c_int64_t), intent(in), target :: low, high
    integer(int64), allocatable, intent(out) :: cells(:, :)
    integer, intent(in), optional :: step
    integer(int32), intent(out), optional :: status
    call find(self, DRY_INT64, c_loc(low), c_loc(high), cells, step_given(step), status)
  end subroutine find_integer

  subroutine find(self, kind, low, high, cells, step, status)
    class(dry_variable), intent(in) :: self
    integer(c_int32_t), intent(in) :: kind
    type(c_ptr), intent(in) :: low, high
    integer(int64), allocatable, intent(out) :: cells(:, :)
    integer(c_int64_t), intent(in) :: step
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), allocatable, target :: found(:, :)
    integer(c_int64_t) :: extents(8), step_axis
    integer(c_size_t) :: count
    integer(c_int32_t) :: ndim
    integer(int32) :: code

    count = 0
    ndim = 0
    code = c_shape(self%handle, ndim, extents, step_axis)
    if (code == DRY_OK) code = c_find(self%handle, step, kind, low, high, c_null_ptr, c_null_ptr, 0_c_size_t, count, c_null_ptr)
    allocate (found(ndim, max(count, 1_c_size_t)))
    if (code == DRY_OK .and. count > 0) &
         code = c_find(self%handle, step, kind, low, high, c_loc(found), c_null_ptr, count, count, c_null_ptr)
    if (code /= DRY_OK) count = 0
    cells = found(ndim:1:-1, :count)
    call settle(code, status)
  end subroutine find
end module drystone_variable
