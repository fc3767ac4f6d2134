!> Texts, offsets and parameters in C's form, and the handling of failures. Programs use `drystone`.
module drystone_arguments
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64
  use drystone_bindings
  implicit none
  private
  public :: dry_message, settle, taken, flag, chosen, step_given, convert_place, c_text, convert_text, convert_texts, joined, &
       convert_parameters, RANKS, NO_INTEGERS

  !> The largest rank of a Fortran 2018 array.
  integer, parameter :: RANKS = 15
  !> The count that stands for a list of another type than 32-bit or 64-bit integers: C refuses it.
  integer(c_int32_t), parameter :: NO_INTEGERS = -2

contains

  !> Number of elements of an optional list.
  pure integer function elements(list) result(number)
    class(*), intent(in), optional :: list(:)
    number = 0
    if (present(list)) number = size(list)
  end function elements

  !> The message of this thread's last failure.
  function dry_message() result(text)
    character(:), allocatable :: text
    character(kind=c_char), allocatable, target :: buffer(:)
    integer(c_size_t) :: length
    integer(c_int32_t) :: ignored

    length = 0
    ignored = c_message(c_null_ptr, 0_c_size_t, length)
    allocate (buffer(length + 1))
    ignored = c_message(c_loc(buffer), length + 1, length)
    text = joined(buffer, length)
  end function dry_message

  !> Returns a failure to the caller, or ends the program with its message.
  subroutine settle(code, status)
    integer(c_int32_t), intent(in) :: code
    integer(int32), intent(out), optional :: status
    if (present(status)) then
       status = code
    else if (code /= DRY_OK) then
       write (error_unit, '(2a)') "drystone: ", dry_message()
       error stop 1
    end if
  end subroutine settle

  !> Takes a handle that is about to be closed, and clears the variable.
  function taken(handle)
    type(c_ptr), intent(inout) :: handle
    type(c_ptr) :: taken
    taken = handle
    handle = c_null_ptr
  end function taken

  !> 1 if it is given and true.
  pure function flag(so) result(number)
    logical, intent(in), optional :: so
    integer(c_int32_t) :: number
    number = 0
    if (present(so)) number = merge(1, 0, so)
  end function flag

  !> The argument if present, else the default.
  pure function chosen(given, otherwise) result(number)
    integer(int32), intent(in), optional :: given
    integer(int32), intent(in) :: otherwise
    integer(c_int32_t) :: number
    number = otherwise
    if (present(given)) number = given
  end function chosen

  !> A step in C's form.
  pure function step_given(step) result(number)
    integer, intent(in), optional :: step
    integer(c_int64_t) :: number
    number = DRY_NO_STEP
    if (present(step)) number = int(step, c_int64_t)
  end function step_given

  !> An offset of 32-bit or 64-bit integers in C's form, stored in `place` as far as it fits; a count of -1 if
  !> there is none. C checks the count first.
  subroutine convert_place(offset, place, count, given)
    class(*), intent(in), optional :: offset(:)
    integer(c_int64_t), target, intent(out) :: place(RANKS)
    integer(c_int32_t), intent(out) :: count
    type(c_ptr), intent(out) :: given
    integer :: kept

    count = -1
    given = c_null_ptr
    if (.not. present(offset)) return
    count = size(offset, kind=c_int32_t)
    kept = min(size(offset), size(place))
    place = 0
    given = c_loc(place)
    select type (offset)
    type is (integer(int32))
       place(:kept) = offset(:kept)
    type is (integer(int64))
       place(:kept) = offset(:kept)
    class default
       count = NO_INTEGERS
    end select
  end subroutine convert_place

  !> A text in C's form, without trailing blanks.
  pure function c_text(text) result(chars)
    character(*), intent(in) :: text
    character(kind=c_char) :: chars(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
       chars(i) = text(i:i)
    end do
    chars(len_trim(text) + 1) = c_null_char
  end function c_text

  !> The same for an optional text; `kept` stores it.
  subroutine convert_text(text, kept, given)
    character(*), intent(in), optional :: text
    character(kind=c_char), allocatable, target, intent(out) :: kept(:)
    type(c_ptr), intent(out) :: given

    given = c_null_ptr
    if (.not. present(text)) return
    allocate (kept(len_trim(text) + 1))
    kept = c_text(text)
    given = c_loc(kept)
  end subroutine convert_text

  !> A list of texts; `kept` and `pointers` store it.
  subroutine convert_texts(texts, kept, pointers, given)
    character(*), intent(in), optional :: texts(:)
    character(kind=c_char), allocatable, target, intent(out) :: kept(:, :)
    type(c_ptr), allocatable, target, intent(out) :: pointers(:)
    type(c_ptr), intent(out) :: given
    integer :: n, i

    given = c_null_ptr
    if (.not. present(texts)) return
    allocate (kept(len(texts) + 1, size(texts)), pointers(max(1, size(texts))))
    kept = c_null_char
    do n = 1, size(texts)
       do i = 1, len_trim(texts(n))
          kept(i, n) = texts(n)(i:i)
       end do
       pointers(n) = c_loc(kept(1, n))
    end do
    given = c_loc(pointers)
  end subroutine convert_texts

  !> A text with this number of characters.
  pure function joined(chars, length) result(text)
    character(kind=c_char), intent(in) :: chars(:)
    integer(c_size_t), intent(in) :: length
    character(int(length)) :: text
    integer :: i
    do i = 1, int(length)
       text(i:i) = chars(i)
    end do
  end function joined

  !> Parameters in C's form; `kept` and `pointers` store their names. A name without a value, or a value without
  !> a name, becomes a parameter without a name, which the library refuses.
  subroutine convert_parameters(names, values, kept, pointers, given)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:)
    character(kind=c_char), allocatable, target, intent(out) :: kept(:, :)
    type(c_ptr), allocatable, target, intent(out) :: pointers(:)
    type(parameter_t), allocatable, intent(out) :: given(:)
    type(c_ptr) :: ignored
    integer :: n

    allocate (given(max(elements(names), elements(values))))
    given%name = c_null_ptr
    given%value = 0
    if (.not. (present(names) .and. present(values))) return
    call convert_texts(names, kept, pointers, ignored)
    n = min(size(names), size(values))
    given(:n)%name = pointers(:n)
    given(:n)%value = int(values(:n), c_int64_t)
  end subroutine convert_parameters
end module drystone_arguments
