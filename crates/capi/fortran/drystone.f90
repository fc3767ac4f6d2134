!> Drystone in Fortran: containers, writers, variables and fragments as derived types with procedures.
!>
!> What holds everywhere
!> - `status`, where it is given, gets a DRY_ code; where it is left out a failure ends the program with its message.
!>   dry_message() is the message of this thread's last failure.
!> - Arrays have any rank, memory layout and type that C knows: integer and real of c_ kinds, complex, logical(c_bool). Sections
!>   are read and written where they lie.
!> - The first index runs fastest. An array (nx, ny, nz) here is (nz, ny, nx) in C and Python: the same bytes.
!> - Offsets and steps count from 0: what lies before.
module drystone
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64
  implicit none
  private

  integer(int32), parameter, public :: DRY_OK = 0, DRY_NOT_FOUND = 1, DRY_CORRUPT = 2, DRY_CONFLICT = 3, &
       DRY_UNSUPPORTED = 4, DRY_INVALID_ARGUMENT = 5, DRY_OUT_OF_RANGE = 6, DRY_IO = 7, DRY_CANCELLED = 8, &
       DRY_BUFFER_TOO_SMALL = 9, DRY_INTERNAL = 10
  integer(int32), parameter, public :: DRY_BOOL = 1, DRY_INT8 = 2, DRY_INT16 = 3, DRY_INT32 = 4, DRY_INT64 = 5, &
       DRY_UINT8 = 6, DRY_UINT16 = 7, DRY_UINT32 = 8, DRY_UINT64 = 9, DRY_FLOAT32 = 12, DRY_FLOAT64 = 13, &
       DRY_COMPLEX64 = 14, DRY_COMPLEX128 = 15
  integer(int32), parameter, public :: DRY_ASYNC = 0, DRY_DURABLE = 1, DRY_MEMORY = 2
  integer(int32), parameter, public :: DRY_READ = 0, DRY_READ_WRITE = 1, DRY_APPEND = 2
  integer(int32), parameter, public :: DRY_ADOPT_ALL = 0, DRY_ADOPT_NONE = 1
  integer(int64), parameter, public :: DRY_NO_STEP = -1_int64, DRY_GROWS = -1_int64

  public :: dry_create, dry_open, dry_message

  !> An open container.
  type, public :: dry_container
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => container_close
     procedure :: create_variable
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
  end type dry_writer

  !> A variable of a snapshot.
  type, public :: dry_variable
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => variable_close
     procedure :: read => variable_read
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

  type, bind(c) :: parameter_t
     type(c_ptr) :: name
     integer(c_int64_t) :: value
  end type parameter_t

  interface
     function c_create(path, durability, handle) result(status) bind(c, name="dry_fortran_create")
       import
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int32_t), value :: durability
       type(c_ptr), intent(out) :: handle
       integer(c_int32_t) :: status
     end function c_create
     function c_open(path, mode, handle) result(status) bind(c, name="dry_open")
       import
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int32_t), value :: mode
       type(c_ptr), intent(out) :: handle
       integer(c_int32_t) :: status
     end function c_open
     function c_container_close(handle) result(status) bind(c, name="dry_container_close")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_container_close
     function c_writer_close(handle) result(status) bind(c, name="dry_writer_close")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_writer_close
     function c_variable_close(handle) result(status) bind(c, name="dry_variable_close")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_variable_close
     function c_fragment_close(handle) result(status) bind(c, name="dry_fragment_close")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_fragment_close
     function c_create_variable(handle, path, kind, ndim, shape, dims, has_steps, transform, chunk_ndim, chunks) &
          result(status) bind(c, name="dry_fortran_create_variable")
       import
       type(c_ptr), value :: handle, shape, dims, transform, chunks
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int32_t), value :: kind, ndim, has_steps, chunk_ndim
       integer(c_int32_t) :: status
     end function c_create_variable
     function c_set_attribute(handle, owner, name, val) result(status) bind(c, name="dry_fortran_set_attribute")
       import
       type(c_ptr), value :: handle
       character(kind=c_char), intent(in) :: owner(*), name(*)
       type(*), dimension(..), intent(in) :: val
       integer(c_int32_t) :: status
     end function c_set_attribute
     function c_get_attribute(handle, owner, name, val) result(status) bind(c, name="dry_fortran_get_attribute")
       import
       type(c_ptr), value :: handle
       character(kind=c_char), intent(in) :: owner(*), name(*)
       type(*), dimension(..), intent(inout) :: val
       integer(c_int32_t) :: status
     end function c_get_attribute
     function c_set_text(handle, owner, name, text) result(status) bind(c, name="dry_set_text_attribute")
       import
       type(c_ptr), value :: handle
       character(kind=c_char), intent(in) :: owner(*), name(*), text(*)
       integer(c_int32_t) :: status
     end function c_set_text
     function c_get_text(handle, owner, name, text, capacity, length) result(status) &
          bind(c, name="dry_get_text_attribute")
       import
       type(c_ptr), value :: handle, text
       character(kind=c_char), intent(in) :: owner(*), name(*)
       integer(c_size_t), value :: capacity
       integer(c_size_t), intent(inout) :: length
       integer(c_int32_t) :: status
     end function c_get_text
     function c_message(text, capacity, length) result(status) bind(c, name="dry_error_message")
       import
       type(c_ptr), value :: text
       integer(c_size_t), value :: capacity
       integer(c_size_t), intent(inout) :: length
       integer(c_int32_t) :: status
     end function c_message
     function c_declare(handle, text, values, count) result(status) bind(c, name="dry_declare")
       import
       type(c_ptr), value :: handle
       character(kind=c_char), intent(in) :: text(*)
       type(parameter_t), intent(in) :: values(*)
       integer(c_size_t), value :: count
       integer(c_int32_t) :: status
     end function c_declare
     function c_fragment_open(handle, name, values, count, out) result(status) bind(c, name="dry_fragment_open")
       import
       type(c_ptr), value :: handle
       character(kind=c_char), intent(in) :: name(*)
       type(parameter_t), intent(in) :: values(*)
       integer(c_size_t), value :: count
       type(c_ptr), intent(out) :: out
       integer(c_int32_t) :: status
     end function c_fragment_open
     function c_fragment_read(handle, step, memory) result(status) bind(c, name="dry_fortran_fragment_read")
       import
       type(c_ptr), value :: handle
       integer(c_int64_t), value :: step
       type(*), dimension(..), intent(inout) :: memory
       integer(c_int32_t) :: status
     end function c_fragment_read
     function c_fragment_write(handle, writer, memory) result(status) bind(c, name="dry_fortran_fragment_write")
       import
       type(c_ptr), value :: handle, writer
       type(*), dimension(..), intent(in) :: memory
       integer(c_int32_t) :: status
     end function c_fragment_write
     function c_writer_open(handle, rank, nranks, out) result(status) bind(c, name="dry_fortran_writer_open")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: rank, nranks
       type(c_ptr), intent(out) :: out
       integer(c_int32_t) :: status
     end function c_writer_open
     function c_variable_open(handle, path, member, out) result(status) bind(c, name="dry_variable_open")
       import
       type(c_ptr), value :: handle, member
       character(kind=c_char), intent(in) :: path(*)
       type(c_ptr), intent(out) :: out
       integer(c_int32_t) :: status
     end function c_variable_open
     function c_commit(handle, snapshot) result(status) bind(c, name="dry_fortran_commit")
       import
       type(c_ptr), value :: handle
       integer(c_int64_t), intent(out) :: snapshot
       integer(c_int32_t) :: status
     end function c_commit
     function c_flush(handle, snapshot) result(status) bind(c, name="dry_flush")
       import
       type(c_ptr), value :: handle
       integer(c_int64_t), intent(out) :: snapshot
       integer(c_int32_t) :: status
     end function c_flush
     function c_refresh(handle, changed) result(status) bind(c, name="dry_refresh")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), intent(out) :: changed
       integer(c_int32_t) :: status
     end function c_refresh
     function c_recover(handle, decision, adopted) result(status) bind(c, name="dry_fortran_recover")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: decision
       integer(c_int64_t), intent(out) :: adopted
       integer(c_int32_t) :: status
     end function c_recover
     function c_steps(handle, out, capacity, count) result(status) bind(c, name="dry_steps")
       import
       type(c_ptr), value :: handle, out
       integer(c_size_t), value :: capacity
       integer(c_size_t), intent(inout) :: count
       integer(c_int32_t) :: status
     end function c_steps
     function c_begin_step(handle, step, replace, begun) result(status) bind(c, name="dry_begin_step")
       import
       type(c_ptr), value :: handle
       integer(c_int64_t), value :: step
       integer(c_int32_t), value :: replace
       integer(c_int64_t), intent(out) :: begun
       integer(c_int32_t) :: status
     end function c_begin_step
     function c_end_step(handle, report) result(status) bind(c, name="dry_end_step")
       import
       type(c_ptr), value :: handle, report
       integer(c_int32_t) :: status
     end function c_end_step
     function c_abort_step(handle) result(status) bind(c, name="dry_abort_step")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_abort_step
     function c_put(handle, path, data, offset_count, offset) result(status) bind(c, name="dry_fortran_put")
       import
       type(c_ptr), value :: handle, offset
       character(kind=c_char), intent(in) :: path(*)
       type(*), dimension(..), intent(in) :: data
       integer(c_int32_t), value :: offset_count
       integer(c_int32_t) :: status
     end function c_put
     function c_read(handle, step, data, offset_count, offset, stride_count, stride) result(status) &
          bind(c, name="dry_fortran_read")
       import
       type(c_ptr), value :: handle, offset, stride
       integer(c_int64_t), value :: step
       type(*), dimension(..), intent(inout) :: data
       integer(c_int32_t), value :: offset_count, stride_count
       integer(c_int32_t) :: status
     end function c_read
     function c_shape(handle, ndim, extents, step_axis) result(status) bind(c, name="dry_fortran_shape")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), intent(out) :: ndim
       integer(c_int64_t), intent(out) :: extents(8), step_axis
       integer(c_int32_t) :: status
     end function c_shape
  end interface

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
  subroutine create_variable(self, path, kind, shape, dims, steps, transform, chunks, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: path
    integer(int32), intent(in) :: kind
    integer, intent(in) :: shape(:)
    character(*), intent(in), optional :: dims(:), transform
    logical, intent(in), optional :: steps
    integer, intent(in), optional :: chunks(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: extents(size(shape)), cut(8)
    character(kind=c_char), allocatable, target :: names(:, :), chain(:)
    type(c_ptr), target :: name_pointers(size(shape))
    type(c_ptr) :: names_given, chain_given, cut_given
    integer(c_int32_t) :: has_steps, cut_count
    integer :: d, i

    extents = int(shape, c_int64_t)
    names_given = c_null_ptr
    chain_given = c_null_ptr
    cut_given = c_null_ptr
    has_steps = 0
    cut_count = 0
    if (present(steps)) has_steps = merge(1, 0, steps)
    if (present(transform)) then
       chain = c_text(transform)
       chain_given = c_loc(chain)
    end if
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
    call settle(c_create_variable(self%handle, c_text(path), kind, int(size(shape), c_int32_t), c_loc(extents), &
         names_given, has_steps, chain_given, cut_count, cut_given), status)
  end subroutine create_variable

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

  !> Opens a variable of the container's current snapshot.
  subroutine open_variable(self, variable, path, status)
    class(dry_container), intent(in) :: self
    type(dry_variable), intent(out) :: variable
    character(*), intent(in) :: path
    integer(int32), intent(out), optional :: status
    call settle(c_variable_open(self%handle, c_text(path), c_null_ptr, variable%handle), status)
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
    integer(c_int64_t) :: number, wanted
    integer(c_int32_t) :: hide

    wanted = DRY_NO_STEP
    if (present(step)) wanted = int(step, c_int64_t)
    hide = 0
    if (present(replace)) hide = merge(1, 0, replace)
    number = -1
    call settle(c_begin_step(self%handle, wanted, hide, number), status)
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

  !> Writes a block; `offset` counts the cells before it in each dimension.
  subroutine put(self, path, data, offset, status)
    class(dry_writer), intent(in) :: self
    character(*), intent(in) :: path
    type(*), dimension(..), intent(in) :: data
    integer, intent(in), optional :: offset(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(8)
    integer(c_int32_t) :: count

    if (present(offset)) then
       count = min(size(offset), size(place))
       place(:count) = int(offset(:count), c_int64_t)
       call settle(c_put(self%handle, c_text(path), data, count, c_loc(place)), status)
    else
       call settle(c_put(self%handle, c_text(path), data, -1_c_int32_t, c_null_ptr), status)
    end if
  end subroutine put

  subroutine variable_close(self, status)
    class(dry_variable), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    type(c_ptr) :: handle

    handle = self%handle
    self%handle = c_null_ptr
    call settle(c_variable_close(handle), status)
  end subroutine variable_close

  !> Fills an array from the box behind `offset`, or from every `stride`-th cell; of one step if the variable has steps.
  subroutine variable_read(self, data, step, offset, stride, status)
    class(dry_variable), intent(in) :: self
    type(*), dimension(..), intent(inout) :: data
    integer, intent(in), optional :: step
    integer, intent(in), optional :: offset(:), stride(:)
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: place(8), by(8)
    integer(c_int32_t) :: places, bys
    integer(c_int64_t) :: wanted
    type(c_ptr) :: place_given, by_given

    wanted = DRY_NO_STEP
    if (present(step)) wanted = int(step, c_int64_t)
    places = -1
    bys = -1
    place_given = c_null_ptr
    by_given = c_null_ptr
    if (present(offset)) then
       places = min(size(offset), size(place))
       place(:places) = int(offset(:places), c_int64_t)
       place_given = c_loc(place)
    end if
    if (present(stride)) then
       bys = min(size(stride), size(by))
       by(:bys) = int(stride(:bys), c_int64_t)
       by_given = c_loc(by)
    end if
    call settle(c_read(self%handle, wanted, data, places, place_given, bys, by_given), status)
  end subroutine variable_read

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
    integer(c_int64_t) :: wanted
    wanted = DRY_NO_STEP
    if (present(step)) wanted = int(step, c_int64_t)
    call settle(c_fragment_read(self%handle, wanted, memory), status)
  end subroutine fragment_read

  !> Puts memory of the fragment's size, in one piece, through a writer.
  subroutine fragment_write(self, memory, writer, status)
    class(dry_fragment), intent(in) :: self
    type(*), dimension(..), intent(in) :: memory
    type(dry_writer), intent(in) :: writer
    integer(int32), intent(out), optional :: status
    call settle(c_fragment_write(self%handle, writer%handle, memory), status)
  end subroutine fragment_write

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
