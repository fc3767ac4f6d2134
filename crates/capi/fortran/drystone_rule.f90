!> Conversions between arrays of different types and layouts, in memory. Programs use `drystone`.
module drystone_rule
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32
  use drystone_bindings
  use drystone_arguments
  implicit none
  private
  public :: dry_rule_compile

  !> The conversion of an array of one type and layout into another.
  type, public :: dry_rule
     type(c_ptr) :: handle = c_null_ptr
   contains
     procedure :: close => rule_close
     procedure :: apply => rule_apply
  end type dry_rule

contains

  !> Compiles the conversion of an array like `src` into one like `dst`: cells that both contain are copied, and
  !> numbers converted. `src_start` and `dst_start` are the positions of the arrays (default: 0). `narrowing`
  !> decides about numbers that do not fit: DRY_REFUSE (the default), DRY_SATURATE or DRY_WRAP.
  subroutine dry_rule_compile(src, dst, rule, src_start, dst_start, narrowing, status)
    type(*), dimension(..), intent(in) :: src, dst
    type(dry_rule), intent(out) :: rule
    class(*), intent(in), optional :: src_start(:), dst_start(:)
    integer(int32), intent(in), optional :: narrowing
    integer(int32), intent(out), optional :: status
    integer(c_int64_t), target :: from(RANKS), to(RANKS)
    integer(c_int32_t) :: froms, tos, count
    type(c_ptr) :: from_given, to_given

    call convert_place(src_start, from, froms, from_given)
    call convert_place(dst_start, to, tos, to_given)
    count = max(froms, tos)
    if (froms >= 0 .and. tos >= 0 .and. froms /= tos) count = huge(count) ! refused
    if (min(froms, tos) == NO_INTEGERS) count = NO_INTEGERS
    call settle(c_rule_compile(src, dst, count, from_given, to_given, chosen(narrowing, DRY_REFUSE), rule%handle), status)
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
    call settle(c_rule_close(taken(self%handle)), status)
  end subroutine rule_close
end module drystone_rule
