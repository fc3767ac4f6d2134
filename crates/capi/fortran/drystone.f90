!> Drystone in Fortran: containers, writers, variables, fragments, rules and teams as derived types with procedures.
!>
!> What holds everywhere
!> - `status`, where it is given, gets a DRY_ code; where it is left out a failure ends the program with its message.
!>   dry_message() is the message of this thread's last failure.
!> - Arrays have any rank, memory layout and type that C knows: integer and real of c_ kinds, complex, logical(c_bool), character
!>   (DRY_BYTES of that length), and bind(c) types (records). Sections are read and written where they lie.
!> - The first index runs fastest. An array (nx, ny, nz) here is (nz, ny, nx) in C and Python: the same bytes.
!> - Offsets and steps count from 0: what lies before.
module drystone
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64
  use drystone_bindings
  implicit none
  private

  public :: DRY_OK, DRY_NOT_FOUND, DRY_CORRUPT, DRY_CONFLICT, DRY_UNSUPPORTED, DRY_INVALID_ARGUMENT, DRY_OUT_OF_RANGE, DRY_IO, &
       DRY_CANCELLED, DRY_BUFFER_TOO_SMALL, DRY_INTERNAL
  public :: DRY_BOOL, DRY_INT8, DRY_INT16, DRY_INT32, DRY_INT64, DRY_UINT8, DRY_UINT16, DRY_UINT32, DRY_UINT64, DRY_FLOAT32, &
       DRY_FLOAT64, DRY_COMPLEX64, DRY_COMPLEX128, DRY_BYTES, DRY_STRING, DRY_RECORD
  public :: DRY_ASYNC, DRY_DURABLE, DRY_MEMORY, DRY_READ, DRY_READ_WRITE, DRY_APPEND, DRY_ADOPT_ALL, DRY_ADOPT_NONE, &
       DRY_REFUSE, DRY_SATURATE, DRY_WRAP, DRY_NO_STEP, DRY_GROWS
  public :: dry_communicator
  public :: dry_create, dry_open, dry_team_create, dry_team_open, dry_rule_compile, dry_message, dry_offset

  !> An open container.
  type, public :: dry_container
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => container_close
     procedure :: create_variable
     procedure :: create_records
     procedure :: set_attribute
     procedure :: get_attribute
     procedure :: set_text_attribute
     procedure :: get_text_attribute
     procedure :: declare_text
     procedure :: open_writer
     procedure :: open_variable
     procedure :: open_fragment
     procedure :: commit
     procedure :: flush => container_flush
     procedure :: refresh
     procedure :: recover
     procedure :: steps
  end type dry_container

  !> A log of its own for each rank.
  type, public :: dry_writer
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => writer_close
     procedure :: begin_step
     procedure :: end_step
     procedure :: abort_step
     procedure :: put
     procedure :: put_strings
  end type dry_writer

  !> A variable of a snapshot.
  type, public :: dry_variable
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => variable_close
     procedure :: read => variable_read
     procedure :: read_strings
     procedure :: extents
     procedure :: step_axis
  end type dry_variable

  !> An instance of a declared fragment.
  type, public :: dry_fragment
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => fragment_close
     procedure :: read => fragment_read
     procedure :: write => fragment_write
  end type dry_fragment

  !> The conversion of an array of one type and layout into another.
  type, public :: dry_rule
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => rule_close
     procedure :: apply => rule_apply
  end type dry_rule

  !> A container that all ranks of a program have opened. Its procedures but `close` and `container` are collective.
  type, public :: dry_team
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => team_close
     procedure :: container => team_container
     procedure :: agree => team_agree
     procedure :: open_writer => team_open_writer
  end type dry_team

  !> A member of a record: its type, and where it lies in the bind(c) type (dry_offset tells).
  type, public :: dry_member
     character(64) :: name = ""
     integer(int32) :: kind = 0
     integer(int64) :: offset = 0
     integer(int32) :: length = 0 !< characters, of DRY_BYTES
     integer(int64) :: shape(4) = -1 !< of an array, in Fortran's order
  end type dry_member

contains

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

  !> Creates a container: a folder.
  subroutine dry_create(path, container, durability, status)
    character(*), intent(in) :: path
    type(dry_container), intent(out) :: container
    integer(int32), intent(in), optional :: durability
    integer(int32), intent(out), optional :: status
    integer(int32) :: wanted

    wanted = DRY_ASYNC
    if (present(durability)) wanted = durability
    call settle(c_create(c_text(path), wanted, container%handle), status)
  end subroutine dry_create

  !> Opens a container: DRY_READ (if left out), DRY_READ_WRITE, or DRY_APPEND.
  subroutine dry_open(path, container, mode, status)
    character(*), intent(in) :: path
    type(dry_container), intent(out) :: container
    integer(int32), intent(in), optional :: mode
    integer(int32), intent(out), optional :: status
    integer(int32) :: wanted

    wanted = DRY_READ
    if (present(mode)) wanted = mode
    call settle(c_open(c_text(path), wanted, container%handle), status)
  end subroutine dry_open

  subroutine container_close(self, status)
    class(dry_container), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_container_close(handle), status)
  end subroutine container_close

  !> Creates a variable of a DRY_ type; `shape`, `dims` and `chunks` in Fortran's order, DRY_GROWS for an extent that grows.
  !> DRY_BYTES has a `length`. A `local` variable, of shape [integer ::], holds one value or array per rank and step.
  !> `access` is the expected mix of reads; what it says of boxes counts axes as C does.
  subroutine create_variable(self, path, kind, shape, dims, steps, transform, chunks, length, local, status, access)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: path
    integer(int32), intent(in) :: kind
    integer, intent(in) :: shape(:)
    character(*), intent(in), optional :: dims(:), transform, access
    logical, intent(in), optional :: steps, local
    integer, intent(in), optional :: chunks(:), length
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: extents(size(shape)), cut(8)
    character(kind=c_char), allocatable, target :: names(:, :), chain(:), mix(:)
    type(c_ptr), target :: name_pointers(size(shape))
    type(c_ptr) :: names_given, chain_given, cut_given, mix_given
    integer(c_int32_t) :: has_steps, is_local, bytes, cut_count
    integer :: d, i

    extents = int(shape, c_int64_t)
    names_given = c_null_ptr
    cut_given = c_null_ptr
    has_steps = 0
    is_local = 0
    bytes = 0
    cut_count = 0
    if (present(local)) is_local = merge(1, 0, local)
    if (present(length)) bytes = int(length, c_int32_t)
    if (present(steps)) has_steps = merge(1, 0, steps)
    call convert_text(transform, chain, chain_given)
    call convert_text(access, mix, mix_given)
    if (present(chunks)) then
       cut_count = min(size(chunks), size(cut))
       cut(:cut_count) = int(chunks(:cut_count), c_int64_t)
       cut_given = c_loc(cut)
    end if
    if (present(dims)) then
       allocate (names(len(dims) + 1, size(shape)))
       names = c_null_char
       do d = 1, min(size(shape), size(dims))
          do i = 1, len_trim(dims(d))
             names(i, d) = dims(d)(i:i)
          end do
       end do
       do d = 1, size(shape)
          name_pointers(d) = c_loc(names(1, d))
       end do
       names_given = c_loc(name_pointers)
    end if
    call settle(c_create_variable(self%handle, c_text(path), kind, bytes, int(size(shape), c_int32_t), c_loc(extents), &
         names_given, has_steps, is_local, chain_given, cut_count, cut_given, mix_given), status)
  end subroutine create_variable

  !> Creates a variable of records: elements of a bind(c) type of `item_size` bytes (c_sizeof) with these members.
  subroutine create_records(self, path, members, item_size, shape, steps, transform, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: path
    type(dry_member), intent(in) :: members(:)
    integer(c_size_t), intent(in) :: item_size
    integer, intent(in) :: shape(:)
    logical, intent(in), optional :: steps
    character(*), intent(in), optional :: transform
    integer(int32), intent(out), optional :: status
    type(member_t), target :: given(size(members))
    character(kind=c_char), target :: names(len(members%name) + 1, size(members))
    integer(c_int64_t), target :: inner(size(members(1)%shape), size(members)), extents(size(shape))
    character(kind=c_char), allocatable, target :: chain(:)
    type(c_ptr) :: chain_given
    integer(c_int32_t) :: has_steps
    integer :: m, i, n

    names = c_null_char
    do m = 1, size(members)
       do i = 1, len_trim(members(m)%name)
          names(i, m) = members(m)%name(i:i)
       end do
       given(m)%name = c_loc(names(1, m))
       given(m)%kind = members(m)%kind
       given(m)%offset = members(m)%offset
       given(m)%length = members(m)%length
       n = count(members(m)%shape >= 0)
       inner(:n, m) = members(m)%shape(n:1:-1)
       given(m)%ndim = int(n, c_int32_t)
       given(m)%shape = c_loc(inner(1, m))
    end do
    call convert_text(transform, chain, chain_given)
    has_steps = 0
    if (present(steps)) has_steps = merge(1, 0, steps)
    extents = int(shape, c_int64_t)
    call settle(c_create_records(self%handle, c_text(path), given, int(size(members), c_int32_t), &
         int(item_size, c_int64_t), int(size(shape), c_int32_t), c_loc(extents), has_steps, chain_given), status)
  end subroutine create_records

  !> Bytes from the beginning of an object to a component of it: dry_offset(c_loc(p), c_loc(p%x)).
  pure function dry_offset(object, component) result(bytes)
    type(c_ptr), intent(in) :: object, component
    integer(int64) :: bytes
    bytes = transfer(component, 0_c_intptr_t) - transfer(object, 0_c_intptr_t)
  end function dry_offset

  !> Sets an attribute to a number or an array of numbers in one piece; `owner` is a variable, a group, or "" for the container.
  subroutine set_attribute(self, owner, name, val, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: owner, name
    type(*), dimension(..), intent(in) :: val
    integer(int32), intent(out), optional :: status
    call settle(c_set_attribute(self%handle, c_text(owner), c_text(name), val), status)
  end subroutine set_attribute

  !> Gets an attribute of exactly this type and size.
  subroutine get_attribute(self, owner, name, val, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: owner, name
    type(*), dimension(..), intent(inout) :: val
    integer(int32), intent(out), optional :: status
    call settle(c_get_attribute(self%handle, c_text(owner), c_text(name), val), status)
  end subroutine get_attribute

  subroutine set_text_attribute(self, owner, name, text, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: owner, name, text
    integer(int32), intent(out), optional :: status
    call settle(c_set_text(self%handle, c_text(owner), c_text(name), c_text(text)), status)
  end subroutine set_text_attribute

  subroutine get_text_attribute(self, owner, name, text, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: owner, name
    character(:), allocatable, intent(out) :: text
    integer(int32), intent(out), optional :: status
    character(kind=c_char), allocatable, target :: buffer(:)
    integer(c_size_t) :: length
    integer(int32) :: code

    text = ""
    length = 0
    code = c_get_text(self%handle, c_text(owner), c_text(name), c_null_ptr, 0_c_size_t, length)
    if (code == DRY_OK) then
       allocate (buffer(length + 1))
       code = c_get_text(self%handle, c_text(owner), c_text(name), c_loc(buffer), length + 1, length)
       if (code == DRY_OK) text = joined(buffer, length)
    end if
    call settle(code, status)
  end subroutine get_text_attribute

  !> Declares a text in the dataset language, with values of its parameters.
  subroutine declare_text(self, text, names, values, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: text
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:)
    integer(int32), intent(out), optional :: status
    character(kind=c_char), allocatable, target :: kept(:, :)
    type(parameter_t), allocatable :: given(:)

    call convert_parameters(names, values, kept, given)
    call settle(c_declare(self%handle, c_text(text), given, size(given, kind=c_size_t)), status)
  end subroutine declare_text

  !> Opens an instance of a declared fragment.
  subroutine open_fragment(self, fragment, name, names, values, status)
    class(dry_container), intent(in) :: self
    type(dry_fragment), intent(out) :: fragment
    character(*), intent(in) :: name
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:)
    integer(int32), intent(out), optional :: status
    character(kind=c_char), allocatable, target :: kept(:, :)
    type(parameter_t), allocatable :: given(:)

    call convert_parameters(names, values, kept, given)
    call settle(c_fragment_open(self%handle, c_text(name), given, size(given, kind=c_size_t), fragment%handle), status)
  end subroutine open_fragment

  !> Opens a writer; without rank and nranks it waits for nobody.
  subroutine open_writer(self, writer, rank, nranks, status)
    class(dry_container), intent(in) :: self
    type(dry_writer), intent(out) :: writer
    integer, intent(in), optional :: rank, nranks
    integer(int32), intent(out), optional :: status
    integer(c_int32_t) :: r, n

    r = 0
    n = 0
    if (present(rank)) r = int(rank, c_int32_t)
    if (present(nranks)) n = int(nranks, c_int32_t)
    call settle(c_writer_open(self%handle, r, n, writer%handle), status)
  end subroutine open_writer

  !> Opens a variable of the container's current snapshot, or one member of its records.
  subroutine open_variable(self, variable, path, member, status)
    class(dry_container), intent(in) :: self
    type(dry_variable), intent(out) :: variable
    character(*), intent(in) :: path
    character(*), intent(in), optional :: member
    integer(int32), intent(out), optional :: status
    character(kind=c_char), allocatable, target :: field(:)
    type(c_ptr) :: field_given

    call convert_text(member, field, field_given)
    call settle(c_variable_open(self%handle, c_text(path), field_given, variable%handle), status)
  end subroutine open_variable

  !> Makes visible what writers have closed; one process does it, when all ranks have ended the step.
  subroutine commit(self, snapshot, status)
    class(dry_container), intent(in) :: self
    integer(int64), intent(out), optional :: snapshot
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: number
    call settle(c_commit(self%handle, number), status)
    if (present(snapshot)) snapshot = number
  end subroutine commit

  !> Makes what is committed survive a power cut.
  subroutine container_flush(self, status)
    class(dry_container), intent(in) :: self
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: number
    call settle(c_flush(self%handle, number), status)
  end subroutine container_flush

  !> Moves to the newest snapshot.
  subroutine refresh(self, changed, status)
    class(dry_container), intent(in) :: self
    logical, intent(out), optional :: changed
    integer(int32), intent(out), optional :: status
    integer(c_int32_t) :: moved
    moved = 0
    call settle(c_refresh(self%handle, moved), status)
    if (present(changed)) changed = moved /= 0
  end subroutine refresh

  !> Settles what a dead run left: DRY_ADOPT_ALL (if left out) or DRY_ADOPT_NONE of its complete steps.
  subroutine recover(self, decision, adopted, status)
    class(dry_container), intent(in) :: self
    integer(int32), intent(in), optional :: decision
    integer(int64), intent(out), optional :: adopted
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: count
    integer(c_int32_t) :: wanted
    wanted = DRY_ADOPT_ALL
    if (present(decision)) wanted = decision
    call settle(c_recover(self%handle, wanted, count), status)
    if (present(adopted)) adopted = count
  end subroutine recover

  !> Committed steps of the current snapshot.
  subroutine steps(self, list, status)
    class(dry_container), intent(in) :: self
    integer(int64), allocatable, intent(out) :: list(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), allocatable, target :: found(:)
    integer(c_size_t) :: count
    integer(int32) :: code

    allocate (list(0))
    count = 0
    code = c_steps(self%handle, c_null_ptr, 0_c_size_t, count)
    if (code == DRY_OK .and. count > 0) then
       allocate (found(count))
       code = c_steps(self%handle, c_loc(found), size(found, kind=c_size_t), count)
       if (code == DRY_OK) list = found(:count)
    end if
    call settle(code, status)
  end subroutine steps

  !> Closes the writer, and commits its values without step.
  subroutine writer_close(self, status)
    class(dry_writer), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_writer_close(handle), status)
  end subroutine writer_close

  !> Begins a step: the given one, or the next.
  subroutine begin_step(self, step, replace, begun, status)
    class(dry_writer), intent(in) :: self
    integer, intent(in), optional :: step
    logical, intent(in), optional :: replace
    integer(int64), intent(out), optional :: begun
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: number
    integer(c_int32_t) :: hide

    hide = 0
    if (present(replace)) hide = merge(1, 0, replace)
    number = -1
    call settle(c_begin_step(self%handle, step_given(step), hide, number), status)
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

  !> Writes a block, of whole elements or of one member of records; `offset` counts the cells before it in each dimension.
  subroutine put(self, path, data, offset, member, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path
    type(*), dimension(..), intent(in) :: data
    integer, intent(in), optional :: offset(:)
    character(*), intent(in), optional :: member
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(8)
    integer(c_int32_t) :: count
    character(kind=c_char), allocatable, target :: field(:)
    type(c_ptr) :: field_given, place_given

    call convert_text(member, field, field_given)
    call convert_place(offset, place, count, place_given)
    call settle(c_put(self%handle, c_text(path), field_given, data, count, place_given), status)
  end subroutine put

  !> Writes a block of a DRY_STRING variable: an array of character; blanks at the end of a text are not part of it.
  subroutine put_strings(self, path, texts, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path
    type(*), dimension(..), intent(in) :: texts
    integer, intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(8)
    integer(c_int32_t) :: count
    type(c_ptr) :: place_given

    call convert_place(offset, place, count, place_given)
    call settle(c_put_strings(self%handle, c_text(path), texts, count, place_given), status)
  end subroutine put_strings

  subroutine variable_close(self, status)
    class(dry_variable), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_variable_close(handle), status)
  end subroutine variable_close

  !> Fills an array from the box behind `offset`, or from every `stride`-th cell; of one step if the variable has steps. With
  !> `team` all its ranks read together, each what it asks for.
  subroutine variable_read(self, data, step, offset, stride, team, status)
    class(dry_variable), intent(in) :: self
    type(*), dimension(..), intent(inout) :: data
    integer, intent(in), optional :: step
    integer, intent(in), optional :: offset(:), stride(:)
    type(dry_team), intent(in), optional :: team
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(8), by(8)
    integer(c_int32_t) :: places, bys
    type(c_ptr) :: place_given, by_given, team_given

    call convert_place(offset, place, places, place_given)
    call convert_place(stride, by, bys, by_given)
    team_given = c_null_ptr
    if (present(team)) team_given = team%handle
    call settle(c_read(team_given, self%handle, step_given(step), data, places, place_given, bys, by_given), status)
  end subroutine variable_read

  !> The texts of a box of a DRY_STRING variable in the order of their elements, all as long as the longest, blanks behind.
  subroutine read_strings(self, texts, count, step, offset, status)
    class(dry_variable), intent(in) :: self
    character(:), allocatable, intent(out) :: texts(:)
    integer, intent(in) :: count(:)
    integer, intent(in), optional :: step, offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(8), many(8)
    integer(c_int32_t) :: places, counts
    type(c_ptr) :: place_given, count_given
    character(kind=c_char), allocatable, target :: buffer(:)
    integer(c_int64_t), allocatable, target :: ends(:)
    integer(c_size_t) :: length, cells
    integer(int32) :: code
    integer :: i, from, longest

    call convert_place(offset, place, places, place_given)
    call convert_place(count, many, counts, count_given)
    if (.not. present(offset)) then
       place = 0
       place_given = c_loc(place)
    else if (places /= counts) then
       counts = -1 ! refused: an offset of another number of dimensions
    end if
    cells = product(int(count, c_size_t))
    allocate (ends(cells))
    length = 0
    code = c_read_strings(self%handle, step_given(step), counts, place_given, count_given, c_null_ptr, 0_c_size_t, length, &
         c_null_ptr, 0_c_size_t)
    allocate (buffer(length + 1))
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

  !> The extents in Fortran's order, without the step axis.
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

  subroutine fragment_close(self, status)
    class(dry_fragment), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_fragment_close(handle), status)
  end subroutine fragment_close

  !> Fills memory of the fragment's size, in one piece.
  subroutine fragment_read(self, memory, step, status)
    class(dry_fragment), intent(in) :: self
    type(*), dimension(..), intent(inout) :: memory
    integer, intent(in), optional :: step
    integer(int32), intent(out), optional :: status
    call settle(c_fragment_read(self%handle, step_given(step), memory), status)
  end subroutine fragment_read

  !> Puts memory of the fragment's size, in one piece, through a writer.
  subroutine fragment_write(self, memory, writer, status)
    class(dry_fragment), intent(in) :: self
    type(*), dimension(..), intent(in) :: memory
    type(dry_writer), intent(in) :: writer
    integer(int32), intent(out), optional :: status
    call settle(c_fragment_write(self%handle, writer%handle, memory), status)
  end subroutine fragment_write

  !> Compiles the conversion of an array like `src` into one like `dst`: cells that both hold are moved, and numbers converted.
  !> `src_start` and `dst_start` say where the arrays lie (0: at the same place), `narrowing` what becomes of numbers that do
  !> not fit: DRY_REFUSE (if left out), DRY_SATURATE or DRY_WRAP.
  subroutine dry_rule_compile(src, dst, rule, src_start, dst_start, narrowing, status)
    type(*), dimension(..), intent(in) :: src, dst
    type(dry_rule), intent(out) :: rule
    integer, intent(in), optional :: src_start(:), dst_start(:)
    integer(int32), intent(in), optional :: narrowing
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: from(8), to(8)
    integer(c_int32_t) :: froms, tos, how
    type(c_ptr) :: from_given, to_given

    call convert_place(src_start, from, froms, from_given)
    call convert_place(dst_start, to, tos, to_given)
    how = DRY_REFUSE
    if (present(narrowing)) how = narrowing
    if (froms >= 0 .and. tos >= 0 .and. froms /= tos) froms = huge(froms) ! refused
    call settle(c_rule_compile(src, dst, max(froms, tos), from_given, to_given, how, rule%handle), status)
  end subroutine dry_rule_compile

  !> Fills `dst` from `src`, arrays of the types, shapes and layouts that the rule was compiled for.
  subroutine rule_apply(self, src, dst, status)
    class(dry_rule), intent(in) :: self
    type(*), dimension(..), intent(in) :: src
    type(*), dimension(..), intent(inout) :: dst
    integer(int32), intent(out), optional :: status
    call settle(c_rule_apply(self%handle, src, dst), status)
  end subroutine rule_apply

  subroutine rule_close(self, status)
    class(dry_rule), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_rule_close(handle), status)
  end subroutine rule_close

  !> Creates a container on all ranks.
  subroutine dry_team_create(path, communicator, team, durability, status)
    character(*), intent(in) :: path
    type(dry_communicator), intent(in) :: communicator
    type(dry_team), intent(out) :: team
    integer(int32), intent(in), optional :: durability
    integer(int32), intent(out), optional :: status
    integer(int32) :: wanted

    wanted = DRY_ASYNC
    if (present(durability)) wanted = durability
    call settle(c_team_create(c_text(path), wanted, communicator, team%handle), status)
  end subroutine dry_team_create

  !> Opens a container on all ranks: DRY_READ (if left out), DRY_READ_WRITE, or DRY_APPEND.
  subroutine dry_team_open(path, communicator, team, mode, status)
    character(*), intent(in) :: path
    type(dry_communicator), intent(in) :: communicator
    type(dry_team), intent(out) :: team
    integer(int32), intent(in), optional :: mode
    integer(int32), intent(out), optional :: status
    integer(int32) :: wanted

    wanted = DRY_READ
    if (present(mode)) wanted = mode
    call settle(c_team_open(c_text(path), wanted, communicator, team%handle), status)
  end subroutine dry_team_open

  subroutine team_close(self, status)
    class(dry_team), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_team_close(handle), status)
  end subroutine team_close

  !> A handle of this rank's container, to read, or on one rank to change the schema; it is closed by its own.
  subroutine team_container(self, container, status)
    class(dry_team), intent(in) :: self
    type(dry_container), intent(out) :: container
    integer(int32), intent(out), optional :: status
    call settle(c_team_container(self%handle, container%handle), status)
  end subroutine team_container

  !> Tells all ranks how each has fared: `mine` is the status of what this rank did last (DRY_OK if left out). If none failed,
  !> all see what one of them did: variables it created, a recovery.
  subroutine team_agree(self, mine, status)
    class(dry_team), intent(in) :: self
    integer(int32), intent(in), optional :: mine
    integer(int32), intent(out), optional :: status
    integer(int32) :: code

    code = DRY_OK
    if (present(mine)) code = mine
    call settle(c_team_agree(self%handle, code), status)
  end subroutine team_agree

  !> Opens the writer of all ranks together; `writers` ranks write, as many as are cheapest if left out.
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

  !> A step as C takes it.
  pure function step_given(step) result(number)
    integer, intent(in), optional :: step
    integer(c_int64_t) :: number
    number = DRY_NO_STEP
    if (present(step)) number = int(step, c_int64_t)
  end function step_given

  !> An offset as C takes it, kept in `place`; a count of -1 if there is none.
  subroutine convert_place(offset, place, count, given)
    integer, intent(in), optional :: offset(:)
    integer(c_int64_t), target, intent(out) :: place(8)
    integer(c_int32_t), intent(out) :: count
    type(c_ptr), intent(out) :: given

    count = -1
    given = c_null_ptr
    if (.not. present(offset)) return
    count = min(size(offset), size(place))
    place(:count) = int(offset(:count), c_int64_t)
    given = c_loc(place)
  end subroutine convert_place

  !> Hands a failure to the caller, or ends the program with its message.
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

  !> A text as C has it; blanks at its end are not part of it.
  pure function c_text(text) result(chars)
    character(*), intent(in) :: text
    character(kind=c_char) :: chars(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
       chars(i) = text(i:i)
    end do
    chars(len_trim(text) + 1) = c_null_char
  end function c_text

  !> The same for a text that may be left out; `kept` holds it meanwhile.
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

  pure function joined(chars, length) result(text)
    character(kind=c_char), intent(in) :: chars(:)
    integer(c_size_t), intent(in) :: length
    character(int(length)) :: text
    integer :: i
    do i = 1, int(length)
       text(i:i) = chars(i)
    end do
  end function joined

  !> Parameters as C takes them; `kept` holds their names meanwhile.
  subroutine convert_parameters(names, values, kept, given)
    character(*), intent(in), optional :: names(:)
    integer, intent(in), optional :: values(:)
    character(kind=c_char), allocatable, target, intent(out) :: kept(:, :)
    type(parameter_t), allocatable, intent(out) :: given(:)
    integer :: n, i

    n = 0
    if (present(names) .and. present(values)) n = min(size(names), size(values))
    allocate (given(n))
    if (n == 0) return
    allocate (kept(len(names) + 1, n))
    kept = c_null_char
    do n = 1, size(given)
       do i = 1, len_trim(names(n))
          kept(i, n) = names(n)(i:i)
       end do
       given(n)%name = c_loc(kept(1, n))
       given(n)%value = int(values(n), c_int64_t)
    end do
  end subroutine convert_parameters
end module drystone
