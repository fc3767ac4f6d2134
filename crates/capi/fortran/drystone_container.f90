!> A container: its contents, and how it is created, opened, committed and published. Programs use `drystone`.
module drystone_container
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use drystone_bindings
  use drystone_arguments
  use drystone_region
  use drystone_fragment, only: dry_fragment
  use drystone_variable, only: dry_variable
  use drystone_writer, only: dry_writer
  implicit none
  private
  public :: dry_create, dry_open, dry_offset

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
     procedure :: publish
     procedure :: map
     procedure :: transfer => carry
     procedure :: wait
  end type dry_container

  !> A member of a record: its type, and its offset in the bind(c) type (dry_offset computes it).
  type, public :: dry_member
     character(64) :: name = ""
     integer(int32) :: kind = 0
     integer(int64) :: offset = 0
     integer(int32) :: length = 0 !< characters, of DRY_BYTES
     integer(int64) :: shape(4) = -1 !< of an array, in Fortran's order
  end type dry_member

contains

  !> Creates a container, which is a folder.
  subroutine dry_create(path, container, durability, status)
    character(*), intent(in) :: path
    type(dry_container), intent(out) :: container
    integer(int32), intent(in), optional :: durability
    integer(int32), intent(out), optional :: status
    call settle(c_create(c_text(path), chosen(durability, DRY_ASYNC), container%handle), status)
  end subroutine dry_create

  !> Opens a container: DRY_READ (the default), DRY_READ_WRITE, or DRY_APPEND.
  subroutine dry_open(path, container, mode, status)
    character(*), intent(in) :: path
    type(dry_container), intent(out) :: container
    integer(int32), intent(in), optional :: mode
    integer(int32), intent(out), optional :: status
    call settle(c_open(c_text(path), chosen(mode, DRY_READ), container%handle), status)
  end subroutine dry_open

  subroutine container_close(self, status)
    class(dry_container), intent(inout) :: self
    integer(int32), intent(out), optional :: status
    call settle(c_container_close(taken(self%handle)), status)
  end subroutine container_close

  !> Creates a variable of a DRY_ type; `shape`, `dims` and `chunks` are in Fortran's order, DRY_GROWS is a
  !> growable extent. DRY_BYTES needs a `length`. A `local` variable, of shape [integer ::], holds one value or
  !> array per rank and step. `access` is the expected mix of reads; its boxes count axes in C's order.
  subroutine create_variable(self, path, kind, shape, dims, steps, transform, chunks, length, local, status, access)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: path
    integer(int32), intent(in) :: kind
    class(*), intent(in) :: shape(:)
    character(*), intent(in), optional :: dims(:), transform, access
    logical, intent(in), optional :: steps, local
    class(*), intent(in), optional :: chunks(:)
    integer, intent(in), optional :: length
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: extents(RANKS), cut(RANKS)
    character(kind=c_char), allocatable, target :: names(:, :), chain(:), mix(:)
    type(c_ptr), allocatable, target :: pointers(:)
    type(c_ptr) :: names_given, chain_given, shape_given, cut_given, mix_given
    integer(c_int32_t) :: bytes, ndim, cut_count, names_count

    call convert_place(shape, extents, ndim, shape_given)
    if (ndim == -1) ndim = 0 ! gfortran passes an empty constructor as absent
    call convert_place(chunks, cut, cut_count, cut_given)
    names_given = c_null_ptr
    bytes = 0
    names_count = 0
    if (present(length)) bytes = int(length, c_int32_t)
    call convert_text(transform, chain, chain_given)
    call convert_text(access, mix, mix_given)
    if (present(dims)) then
       call convert_texts(dims, names, pointers, names_given)
       names_count = size(dims, kind=c_int32_t)
    end if
    call settle(c_create_variable(self%handle, c_text(path), kind, bytes, ndim, shape_given, &
         names_count, names_given, flag(steps), flag(local), chain_given, cut_count, cut_given, mix_given), status)
  end subroutine create_variable

  !> Creates a variable of records: elements of a bind(c) type of `item_size` bytes (c_sizeof) with these
  !> members.
  subroutine create_records(self, path, members, item_size, shape, steps, transform, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: path
    type(dry_member), intent(in) :: members(:)
    integer(c_size_t), intent(in) :: item_size
    class(*), intent(in) :: shape(:)
    logical, intent(in), optional :: steps
    character(*), intent(in), optional :: transform
    integer(int32), intent(out), optional :: status
    type(member_t), target :: given(size(members))
    character(kind=c_char), allocatable, target :: names(:, :)
    integer(c_int64_t), target :: inner(size(members(1)%shape), size(members)), extents(RANKS)
    character(kind=c_char), allocatable, target :: chain(:)
    type(c_ptr), allocatable, target :: pointers(:)
    type(c_ptr) :: chain_given, names_given, shape_given
    integer(c_int32_t) :: ndim
    integer :: m, n

    call convert_texts(members%name, names, pointers, names_given)
    do m = 1, size(members)
       given(m)%name = pointers(m)
       given(m)%kind = members(m)%kind
       given(m)%offset = members(m)%offset
       given(m)%length = members(m)%length
       n = count(members(m)%shape >= 0)
       inner(:n, m) = members(m)%shape(n:1:-1)
       given(m)%ndim = int(n, c_int32_t)
       given(m)%shape = c_loc(inner(1, m))
    end do
    call convert_text(transform, chain, chain_given)
    call convert_place(shape, extents, ndim, shape_given)
    if (ndim == -1) ndim = 0 ! gfortran passes an empty constructor as absent
    call settle(c_create_records(self%handle, c_text(path), given, int(size(members), c_int32_t), &
         int(item_size, c_int64_t), ndim, shape_given, flag(steps), chain_given), status)
  end subroutine create_records

  !> Offset in bytes of a component in an object: dry_offset(c_loc(p), c_loc(p%x)).
  pure function dry_offset(object, component) result(bytes)
    type(c_ptr), intent(in) :: object, component
    integer(int64) :: bytes
    bytes = transfer(component, 0_c_intptr_t) - transfer(object, 0_c_intptr_t)
  end function dry_offset

  !> Sets an attribute to a number or a contiguous array of numbers; `owner` is a variable, a group, or "" for
  !> the container.
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
    type(c_ptr), allocatable, target :: pointers(:)
    type(parameter_t), allocatable :: given(:)

    call convert_parameters(names, values, kept, pointers, given)
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
    type(c_ptr), allocatable, target :: pointers(:)
    type(parameter_t), allocatable :: given(:)

    call convert_parameters(names, values, kept, pointers, given)
    call settle(c_fragment_open(self%handle, c_text(name), given, size(given, kind=c_size_t), fragment%handle), status)
  end subroutine open_fragment

  !> Opens a writer. Without rank and nranks, its steps wait for no other rank.
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

  !> Maps a box of a variable at one step: `count` cells from `offset` on, in Fortran's order (default: all).
  !> `access` is DRY_MAP_READ, DRY_MAP_WRITE (the default) or their sum.
  subroutine map(self, region, path, offset, count, step, access, status)
    class(dry_container), intent(in) :: self
    type(dry_region), intent(out) :: region
    character(*), intent(in) :: path
    integer, intent(in) :: offset(:), count(:)
    integer, intent(in), optional :: step
    integer(int32), intent(in), optional :: access
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: first(RANKS), cells(RANKS)
    integer :: n

    n = min(size(offset), RANKS)
    if (size(offset) /= size(count)) n = 0 ! refused, as no variable has such a box
    first(:n) = offset(n:1:-1)
    cells(:n) = count(n:1:-1)
    call settle(c_map(self%handle, c_text(path), step_given(step), int(n, c_int32_t), c_loc(first), c_loc(cells), &
         chosen(access, DRY_MAP_WRITE), region%handle), status)
  end subroutine map

  !> Copies committed values of one variable to another, of one step or of all; `rule` such as "cast:dtype=f4".
  !> `number` is for `wait`.
  subroutine carry(self, from, to, number, rule, step, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in) :: from, to
    integer(int64), intent(out) :: number
    character(*), intent(in), optional :: rule
    integer, intent(in), optional :: step
    integer(int32), intent(out), optional :: status
    character(kind=c_char), allocatable, target :: kept(:)
    type(c_ptr) :: rule_given

    call convert_text(rule, kept, rule_given)
    call settle(c_transfer(self%handle, c_text(from), c_text(to), rule_given, step_given(step), number), status)
  end subroutine carry

  !> Waits until a transfer has a level (default: DRY_NODE), for `timeout` seconds (default: 60).
  subroutine wait(self, number, level, timeout, status)
    class(dry_container), intent(in) :: self
    integer(int64), intent(in) :: number
    integer(int32), intent(in), optional :: level
    real(c_double), intent(in), optional :: timeout
    integer(int32), intent(out), optional :: status
    real(c_double) :: seconds

    seconds = 60
    if (present(timeout)) seconds = timeout
    call settle(c_wait(self%handle, number, chosen(level, DRY_NODE), seconds, c_null_ptr), status)
  end subroutine wait

  !> Commits what writers have closed. Call it from one process, after all ranks have ended the step.
  subroutine commit(self, snapshot, status)
    class(dry_container), intent(in) :: self
    integer(int64), intent(out), optional :: snapshot
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: number
    call settle(c_commit(self%handle, number), status)
    if (present(snapshot)) snapshot = number
  end subroutine commit

  !> Makes everything committed survive a power cut.
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

  !> Settles the steps of a dead run: DRY_ADOPT_ALL (the default) or DRY_ADOPT_NONE of its complete steps.
  subroutine recover(self, decision, adopted, status)
    class(dry_container), intent(in) :: self
    integer(int32), intent(in), optional :: decision
    integer(int64), intent(out), optional :: adopted
    integer(int32), intent(out), optional :: status
    integer(c_int64_t) :: count
    call settle(c_recover(self%handle, chosen(decision, DRY_ADOPT_ALL), count), status)
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

  !> Writes the Zarr replica for other tools, of all variables or of those named. A repeated call writes only
  !> what changed. `compressor` is "auto" (the default), "none" or "zstd:LEVEL". Zarr cannot represent `skipped`
  !> variables.
  subroutine publish(self, variables, compressor, snapshot, written, kept, skipped, status)
    class(dry_container), intent(in) :: self
    character(*), intent(in), optional :: variables(:), compressor
    integer(int64), intent(out), optional :: snapshot, written, kept, skipped
    integer(int32), intent(out), optional :: status
    character(kind=c_char), allocatable, target :: names(:, :), chain(:)
    type(c_ptr), allocatable, target :: pointers(:)
    type(c_ptr) :: names_given, chain_given
    integer(c_int64_t) :: told(4)
    integer(c_int32_t) :: count

    count = 0
    if (present(variables)) count = int(size(variables), c_int32_t)
    call convert_texts(variables, names, pointers, names_given)
    call convert_text(compressor, chain, chain_given)
    call settle(c_publish(self%handle, count, names_given, chain_given, told), status)
    if (present(snapshot)) snapshot = told(1)
    if (present(written)) written = told(2)
    if (present(kept)) kept = told(3)
    if (present(skipped)) skipped = told(4)
  end subroutine publish
end module drystone_container
