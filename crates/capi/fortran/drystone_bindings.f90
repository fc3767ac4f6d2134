!> The C functions that the module `drystone` calls, and the constants and structures of drystone.h. Programs
!> use `drystone`.
module drystone_bindings
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  implicit none
  public

  integer(int32), parameter :: DRY_OK = 0, DRY_NOT_FOUND = 1, DRY_CORRUPT = 2, DRY_CONFLICT = 3, &
       DRY_UNSUPPORTED = 4, DRY_INVALID_ARGUMENT = 5, DRY_OUT_OF_RANGE = 6, DRY_IO = 7, DRY_CANCELLED = 8, &
       DRY_BUFFER_TOO_SMALL = 9, DRY_INTERNAL = 10, DRY_PERMISSION = 11, &
       DRY_DEADLINE = 12, DRY_NOT_YET_HOME = 13
  integer(int32), parameter :: DRY_BOOL = 1, DRY_INT8 = 2, DRY_INT16 = 3, DRY_INT32 = 4, DRY_INT64 = 5, &
       DRY_UINT8 = 6, DRY_UINT16 = 7, DRY_UINT32 = 8, DRY_UINT64 = 9, DRY_FLOAT32 = 12, DRY_FLOAT64 = 13, &
       DRY_COMPLEX64 = 14, DRY_COMPLEX128 = 15, DRY_BYTES = 16, DRY_STRING = 18, DRY_RECORD = 19, DRY_RAGGED = 20
  integer(int32), parameter :: DRY_ASYNC = 0, DRY_DURABLE = 1, DRY_MEMORY = 2
  integer(int32), parameter :: DRY_READ = 0, DRY_READ_WRITE = 1, DRY_APPEND = 2
  integer(int32), parameter :: DRY_ADOPT_ALL = 0, DRY_ADOPT_NONE = 1
  integer(int32), parameter :: DRY_REFUSE = 0, DRY_SATURATE = 1, DRY_WRAP = 2
  integer(int32), parameter :: DRY_MAP_READ = 1, DRY_MAP_WRITE = 2
  integer(int32), parameter :: DRY_RECEIVED = 0, DRY_NODE = 1, DRY_HOME = 3, DRY_STABLE = 4
  integer(int64), parameter :: DRY_NO_STEP = -1_int64, DRY_GROWS = -1_int64

  !> How the ranks of a program communicate; drystone_mpi makes one from an MPI communicator.
  type, bind(c) :: dry_communicator
     integer(c_int32_t) :: struct_size = 0, rank = 0, size = 0, reserved = 0
     integer(c_int64_t) :: node = 0
     type(c_ptr) :: context = c_null_ptr
     type(c_funptr) :: all_gather = c_null_funptr, exchange = c_null_funptr
  end type dry_communicator

  type, bind(c) :: parameter_t
     type(c_ptr) :: name
     integer(c_int64_t) :: value
  end type parameter_t

  !> A member of a record: `dry_member` of the header.
  type, bind(c) :: member_t
     type(c_ptr) :: name = c_null_ptr
     integer(c_int32_t) :: kind = 0, length = 0
     integer(c_int64_t) :: offset = 0
     type(c_ptr) :: record = c_null_ptr, shape = c_null_ptr
     integer(c_int32_t) :: ndim = 0, reserved = 0
  end type member_t

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
     function c_create_variable(handle, path, kind, length, ndim, shape, dims_count, dims, has_steps, is_local, transform, &
          chunk_ndim, chunks, access) result(status) bind(c, name="dry_fortran_create_variable")
       import
       type(c_ptr), value :: handle, shape, dims, transform, chunks, access
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int32_t), value :: kind, length, ndim, dims_count, has_steps, is_local, chunk_ndim
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
     function c_put(handle, path, member, data, offset_count, offset) result(status) bind(c, name="dry_fortran_put")
       import
       type(c_ptr), value :: handle, member, offset
       character(kind=c_char), intent(in) :: path(*)
       type(*), dimension(..), intent(in) :: data
       integer(c_int32_t), value :: offset_count
       integer(c_int32_t) :: status
     end function c_put
     function c_fits_member(data) result(status) bind(c, name="dry_fortran_fits_member")
       import
       type(*), dimension(..), intent(in) :: data
       integer(c_int32_t) :: status
     end function c_fits_member
     function c_read(team, handle, step, data, offset_count, offset, stride_count, stride) result(status) &
          bind(c, name="dry_fortran_read")
       import
       type(c_ptr), value :: team, handle, offset, stride
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
     function c_create_records(handle, path, members, member_count, item_size, ndim, shape, has_steps, transform) &
          result(status) bind(c, name="dry_fortran_create_records")
       import
       type(c_ptr), value :: handle, shape, transform
       character(kind=c_char), intent(in) :: path(*)
       type(member_t), intent(in) :: members(*)
       integer(c_int32_t), value :: member_count, ndim, has_steps
       integer(c_int64_t), value :: item_size
       integer(c_int32_t) :: status
     end function c_create_records
     function c_put_strings(handle, path, member, texts, offset_count, offset) result(status) &
          bind(c, name="dry_fortran_put_strings")
       import
       type(c_ptr), value :: handle, member, offset
       character(kind=c_char), intent(in) :: path(*)
       type(*), dimension(..), intent(in) :: texts
       integer(c_int32_t), value :: offset_count
       integer(c_int32_t) :: status
     end function c_put_strings
     function c_read_strings(handle, step, ndim, offset, counts, text, capacity, length, ends, cells) result(status) &
          bind(c, name="dry_fortran_read_strings")
       import
       type(c_ptr), value :: handle, offset, counts, text, ends
       integer(c_int64_t), value :: step
       integer(c_int32_t), value :: ndim
       integer(c_size_t), value :: capacity, cells
       integer(c_size_t), intent(inout) :: length
       integer(c_int32_t) :: status
     end function c_read_strings
     function c_put_lists(handle, path, member, numbers, lengths, offset_count, offset) result(status) &
          bind(c, name="dry_fortran_put_lists")
       import
       type(c_ptr), value :: handle, member, offset
       character(kind=c_char), intent(in) :: path(*)
       type(*), dimension(..), intent(in) :: numbers, lengths
       integer(c_int32_t), value :: offset_count
       integer(c_int32_t) :: status
     end function c_put_lists
     function c_list_lengths(handle, step, ndim, offset, counts, lengths, cells) result(status) &
          bind(c, name="dry_fortran_list_lengths")
       import
       type(c_ptr), value :: handle, offset, counts, lengths
       integer(c_int64_t), value :: step
       integer(c_int32_t), value :: ndim
       integer(c_size_t), value :: cells
       integer(c_int32_t) :: status
     end function c_list_lengths
     function c_read_lists(handle, step, ndim, offset, counts, numbers) result(status) bind(c, name="dry_fortran_read_lists")
       import
       type(c_ptr), value :: handle, offset, counts
       integer(c_int64_t), value :: step
       integer(c_int32_t), value :: ndim
       type(*), dimension(..), intent(inout) :: numbers
       integer(c_int32_t) :: status
     end function c_read_lists
     function c_rule_compile(src, dst, start_count, src_start, dst_start, narrowing, rule) result(status) &
          bind(c, name="dry_fortran_rule_compile")
       import
       type(*), dimension(..), intent(in) :: src, dst
       integer(c_int32_t), value :: start_count, narrowing
       type(c_ptr), value :: src_start, dst_start
       type(c_ptr), intent(out) :: rule
       integer(c_int32_t) :: status
     end function c_rule_compile
     function c_rule_apply(handle, src, dst) result(status) bind(c, name="dry_fortran_rule_apply")
       import
       type(c_ptr), value :: handle
       type(*), dimension(..), intent(in) :: src
       type(*), dimension(..), intent(inout) :: dst
       integer(c_int32_t) :: status
     end function c_rule_apply
     function c_rule_close(handle) result(status) bind(c, name="dry_rule_close")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_rule_close
     function c_team_create(path, durability, communicator, team) result(status) bind(c, name="dry_fortran_team_create")
       import
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int32_t), value :: durability
       type(dry_communicator), intent(in) :: communicator
       type(c_ptr), intent(out) :: team
       integer(c_int32_t) :: status
     end function c_team_create
     function c_team_open(path, mode, communicator, team) result(status) bind(c, name="dry_team_open")
       import
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int32_t), value :: mode
       type(dry_communicator), intent(in) :: communicator
       type(c_ptr), intent(out) :: team
       integer(c_int32_t) :: status
     end function c_team_open
     function c_map(handle, path, step, ndim, offset, count, access, region) result(status) bind(c, name="dry_map")
       import
       type(c_ptr), value :: handle, offset, count
       character(kind=c_char), intent(in) :: path(*)
       integer(c_int64_t), value :: step
       integer(c_int32_t), value :: ndim, access
       type(c_ptr), intent(out) :: region
       integer(c_int32_t) :: status
     end function c_map
     function c_region_memory(handle, memory, size) result(status) bind(c, name="dry_region_memory")
       import
       type(c_ptr), value :: handle
       type(c_ptr), intent(out) :: memory
       integer(c_int64_t), intent(out) :: size
       integer(c_int32_t) :: status
     end function c_region_memory
     function c_lock(handle, access, timeout) result(status) bind(c, name="dry_lock")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: access
       real(c_double), value :: timeout
       integer(c_int32_t) :: status
     end function c_lock
     function c_release(handle, level, transfer) result(status) bind(c, name="dry_release")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: level
       integer(c_int64_t), intent(out) :: transfer
       integer(c_int32_t) :: status
     end function c_release
     function c_unlock(handle) result(status) bind(c, name="dry_unlock")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_unlock
     function c_unmap(handle) result(status) bind(c, name="dry_unmap")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_unmap
     function c_transfer(handle, from, to, rule, step, transfer) result(status) bind(c, name="dry_transfer")
       import
       type(c_ptr), value :: handle, rule
       character(kind=c_char), intent(in) :: from(*), to(*)
       integer(c_int64_t), value :: step
       integer(c_int64_t), intent(out) :: transfer
       integer(c_int32_t) :: status
     end function c_transfer
     function c_wait(handle, transfer, level, timeout, reached) result(status) bind(c, name="dry_transfer_wait")
       import
       type(c_ptr), value :: handle, reached
       integer(c_int64_t), value :: transfer
       integer(c_int32_t), value :: level
       real(c_double), value :: timeout
       integer(c_int32_t) :: status
     end function c_wait
     function c_team_close(handle) result(status) bind(c, name="dry_team_close")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t) :: status
     end function c_team_close
     function c_team_container(handle, container) result(status) bind(c, name="dry_team_container")
       import
       type(c_ptr), value :: handle
       type(c_ptr), intent(out) :: container
       integer(c_int32_t) :: status
     end function c_team_container
     function c_team_agree(handle, mine) result(status) bind(c, name="dry_team_agree")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: mine
       integer(c_int32_t) :: status
     end function c_team_agree
     function c_team_writer(handle, writers, writer) result(status) bind(c, name="dry_fortran_team_writer")
       import
       type(c_ptr), value :: handle
       integer(c_int32_t), value :: writers
       type(c_ptr), intent(out) :: writer
       integer(c_int32_t) :: status
     end function c_team_writer
     function c_publish(handle, count, variables, compressor, told) result(status) bind(c, name="dry_fortran_publish")
       import
       type(c_ptr), value :: handle, variables, compressor
       integer(c_int32_t), value :: count
       integer(c_int64_t), intent(out) :: told(4)
       integer(c_int32_t) :: status
     end function c_publish
     function c_read_points(handle, data, naxes, cells, count) result(status) bind(c, name="dry_fortran_read_points")
       import
       type(c_ptr), value :: handle, cells
       type(*), dimension(..), intent(inout) :: data
       integer(c_int32_t), value :: naxes
       integer(c_int64_t), value :: count
       integer(c_int32_t) :: status
     end function c_read_points
     function c_find(handle, step, kind, low, high, cells, values, capacity, count, report) result(status) &
          bind(c, name="dry_find")
       import
       type(c_ptr), value :: handle, low, high, cells, values, report
       integer(c_int64_t), value :: step
       integer(c_int32_t), value :: kind
       integer(c_size_t), value :: capacity
       integer(c_size_t), intent(inout) :: count
       integer(c_int32_t) :: status
     end function c_find
  end interface
end module drystone_bindings
