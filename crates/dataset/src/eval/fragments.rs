//! Evaluates fragments: paths to dimensions and fields, and variables to offsets.

use std::sync::Arc;

use super::expressions::too_large;
use super::layout::{aligned, grown, model_order, total};
use super::{Eval, Evaluator, Local, Stop};
use crate::ast::{Binder, Expr, FragmentDecl, FragmentItem, FragmentVarDecl, IndexExpr, Path, Step};
use crate::diagnostic::Diagnostic;
use crate::fragment::{DatasetDim, FieldRef, Fragment, FragmentVar, Role};
use crate::index_map::{IndexMap, Source};
use crate::lowered::{MAX_LEAVES, join};
use crate::overlap::Writable;
use crate::span::Span;
use crate::types::{ArrayType, Field, Order, StructType, Type};
use crate::variable::Variable;

/// Steps charged for a variable, so that the budget also bounds memory.
const VAR_COST: u64 = 64;

/// The offset of the next variable of a fragment.
struct NextOffset {
    end: u64,
    align: u64,
}

impl NextOffset {
    fn align_to(&mut self, align: u64, span: Span) -> Eval<u64> {
        self.align = self.align.max(align);
        self.end = aligned(self.end, align).ok_or_else(|| too_large(span, "the fragment"))?;
        Ok(self.end)
    }

    fn take(&mut self, bytes: u64, span: Span) -> Eval<()> {
        self.end = grown(self.end, bytes).ok_or_else(|| too_large(span, "the fragment"))?;
        Ok(())
    }
}

/// The result of following a path.
struct Target {
    variable: Arc<Variable>,
    dims: Vec<DatasetDim>,
    path: Arc<str>,
    ty: Type,
    dataset_offset: u64,
}

impl<'s> Evaluator<'s> {
    /// Evaluates one instance of a fragment. `values` are those of its own parameters that are not declared with
    /// `param`; the others come from the evaluator.
    pub(crate) fn fragment(&mut self, decl: &'s FragmentDecl, values: &[(&str, i64)]) -> Eval<Fragment> {
        self.locals.clear();
        let symbols = self.symbols;
        for param in &decl.params {
            if !symbols.global_index.contains_key(&param.text) {
                let value = values.iter().find(|(name, _)| *name == &*param.text).map(|&(_, value)| value);
                self.locals.push(Local { name: &param.text, value, span: param.span });
            }
        }
        let fragment = self.fragment_body(decl);
        self.locals.clear();
        let fragment = fragment?;
        self.may_be_stored(&fragment, decl)?;
        Ok(fragment)
    }

    fn fragment_body(&mut self, decl: &'s FragmentDecl) -> Eval<Fragment> {
        let mut params = Vec::new();
        for param in &decl.params {
            let name = Expr { kind: crate::ast::ExprKind::Name(param.text.clone()), span: param.span };
            params.push((Arc::from(&*param.text), self.value(&name)?));
        }
        let role = match decl.roles.first() {
            None => Role::View,
            Some(role) => match &role.replica {
                None => Role::Default,
                Some(number) => {
                    let k = self.count(number, "the number of the replica", 1)?;
                    Role::Replica(u32::try_from(k).map_err(|_| {
                        Diagnostic::new(number.span, format!("the number of the replica is {k}"))
                            .label("expected at most 2^32 - 1")
                    })?)
                }
            },
        };
        let mut place = NextOffset { end: 0, align: 1 };
        let mut vars = Vec::new();
        for item in &decl.items {
            match item {
                FragmentItem::Pad(bytes) => {
                    let count = self.count(bytes, "the padding", 0)?;
                    place.take(count, bytes.span)?;
                }
                FragmentItem::Align(expr) => {
                    let align = self.alignment(Some(expr))?;
                    place.align_to(align, expr.span)?;
                }
                FragmentItem::Var(var) => self.repeated(var, &mut place, &mut vars)?,
            }
        }
        let (size, align) = (place.end, place.align);
        Ok(Fragment { name: (*decl.name.text).into(), role, params, size, align, vars })
    }

    fn repeated(
        &mut self,
        decl: &'s FragmentVarDecl,
        place: &mut NextOffset,
        vars: &mut Vec<FragmentVar>,
    ) -> Eval<()> {
        let Some(repeat) = &decl.repeat else {
            vars.push(self.fragment_var(decl, None, place)?);
            return Ok(());
        };
        let (from, to) = (self.value(&repeat.from)?, self.value(&repeat.to)?);
        let range = repeat.from.span.to(repeat.to.span);
        if to < from {
            return Err(Diagnostic::new(range, format!("the range runs backwards, from {from} to {to}"))
                .label("expected an end that is not before the beginning")
                .into());
        }
        if to.abs_diff(from) > MAX_LEAVES as u64 {
            return Err(Diagnostic::new(range, format!("`for` makes {} variables", to.abs_diff(from)))
                .label(format!("at most {MAX_LEAVES} are allowed"))
                .help("make the counter an index: `var v[k:n, …] = …[k, …]`")
                .into());
        }
        for counter in from..to {
            self.locals.push(Local { name: &repeat.name.text, value: Some(counter), span: repeat.name.span });
            let var = self.fragment_var(decl, Some(counter), place);
            self.locals.pop();
            vars.push(var?);
        }
        Ok(())
    }

    fn fragment_var(
        &mut self,
        decl: &FragmentVarDecl,
        iteration: Option<i64>,
        place: &mut NextOffset,
    ) -> Eval<FragmentVar> {
        self.charge(VAR_COST)?;
        let mut extents = Vec::new();
        for binder in &decl.binders {
            let what = format!("the extent of `{}`", binder.name.text);
            extents.push(self.count(&binder.extent, &what, 0)?);
        }
        let target = self.path(&decl.path, &decl.binders, iteration.is_none())?;
        let (element, fields) = match &decl.path.select {
            None => (target.ty.clone(), vec![whole(&target)]),
            Some(names) => self.selected(names, &target)?,
        };
        let align = element.align().max(self.alignment(decl.align.as_ref())?);
        let offset = place.align_to(align, decl.name.span)?;
        // An extent of 0 must not hide that the others are too large to have strides.
        let filled: Vec<u64> = extents.iter().map(|&extent| extent.max(1)).collect();
        let size =
            total(element.size(), &filled).ok_or_else(|| too_large(decl.name.span, "this variable"))?;
        let size = if extents.contains(&0) { 0 } else { size };
        place.take(size, decl.name.span)?;
        let Target { variable, dims, .. } = target;
        let (name, order) = ((*decl.name.text).into(), model_order(decl.order.as_ref()));
        Ok(FragmentVar { name, iteration, offset, align, extents, order, element, variable, fields, dims })
    }

    /// The selected fields of a struct, as a struct of their own. They are laid out by the usual rules for structs, in
    /// the order of the selection; packed if the original is.
    fn selected(&mut self, names: &[crate::ast::Name], target: &Target) -> Eval<(Type, Vec<FieldRef>)> {
        let (mut fields, mut refs, mut end, mut align) = (Vec::new(), Vec::new(), 0, 1);
        let Type::Struct(structure) = &target.ty else { return Ok((target.ty.clone(), vec![whole(target)])) };
        for name in names {
            self.charge(1)?;
            let field = self.field(structure, name)?;
            let own = if structure.packed { 1 } else { field.ty.align() };
            let offset = aligned(end, own).ok_or_else(|| too_large(name.span, "this element"))?;
            end = grown(offset, field.ty.size()).ok_or_else(|| too_large(name.span, "this element"))?;
            align = align.max(own);
            refs.push(FieldRef {
                path: join(&target.path, &name.text),
                ty: field.ty.clone(),
                dataset_offset: target.dataset_offset + field.offset,
                offset,
            });
            fields.push(Field { name: (*name.text).into(), ty: field.ty.clone(), offset });
        }
        let last = names.last().map_or(Span::default(), |n| n.span);
        let size = aligned(end, align).ok_or_else(|| too_large(last, "this element"))?;
        let packed = structure.packed;
        Ok((Type::Struct(Arc::new(StructType { fields, size, align, packed, id: structure.id })), refs))
    }

    fn field<'t>(&self, structure: &'t StructType, name: &crate::ast::Name) -> Eval<&'t Field> {
        let place = self.symbols.field(structure.id, &name.text);
        place
            .and_then(|p| structure.fields.get(p.ordinal))
            .ok_or_else(|| Diagnostic::new(name.span, format!("no field `{}`", name.text)).into())
    }

    fn path(&mut self, path: &Path, binders: &[Binder], constant: bool) -> Eval<Target> {
        let (first, rest) =
            path.steps.split_first().ok_or_else(|| Diagnostic::new(path.span, "an empty path"))?;
        let id = self.symbols.var_index.get(&first.name.text).copied();
        let id = id.ok_or_else(|| Diagnostic::new(first.name.span, "unknown dataset variable"))?;
        let variable = self.variable(id)?;
        let strides = variable.order.strides(&variable.extents, variable.ty.size());
        let mut dims = Vec::new();
        let (outer, inner) =
            first.index.split_at_checked(variable.extents.len()).unwrap_or((&first.index, &[]));
        for (index, (&extent, stride)) in outer.iter().zip(variable.extents.iter().zip(strides)) {
            let map = self.index_map(index, binders)?;
            if self.fixed && constant {
                inside(index, &map, extent, first)?;
            }
            dims.push(DatasetDim { extent, stride, map });
        }
        let ty = self.index_arrays(variable.ty.clone(), inner, first, binders, &mut dims)?;
        let mut target = Target { variable, dims, path: "".into(), ty, dataset_offset: 0 };
        for step in rest {
            self.charge(1)?;
            let Type::Struct(structure) = &target.ty else {
                return Err(Diagnostic::new(step.span, "this has no fields").into());
            };
            let field = self.field(structure, &step.name)?;
            let (ty, offset) = (field.ty.clone(), field.offset);
            target.path = join(&target.path, &step.name.text);
            target.dataset_offset += offset;
            target.ty = self.index_arrays(ty, &step.index, step, binders, &mut target.dims)?;
        }
        Ok(target)
    }

    /// Takes the type inside as many arrays of an element as there are indices.
    fn index_arrays(
        &mut self,
        mut ty: Type,
        mut indices: &[IndexExpr],
        step: &Step,
        binders: &[Binder],
        dims: &mut Vec<DatasetDim>,
    ) -> Eval<Type> {
        while !indices.is_empty() {
            let wrong = || Diagnostic::new(step.span, format!("`{}` is not such an array", step.name.text));
            let Type::Array(array) = &ty else { return Err(wrong().into()) };
            let ArrayType { extents, element, order, .. } = &**array;
            let (these, rest) = indices.split_at_checked(extents.len()).ok_or_else(wrong)?;
            let known: Vec<Option<u64>> = extents.iter().copied().map(Some).collect();
            let strides = Order::strides(order, &known, element.size());
            for (index, (extent, stride)) in these.iter().zip(known.into_iter().zip(strides)) {
                let map = self.index_map(index, binders)?;
                inside(index, &map, extent, step)?;
                dims.push(DatasetDim { extent, stride, map });
            }
            indices = rest;
            ty = element.clone();
        }
        Ok(ty)
    }

    /// Refuses a stored fragment in which two elements are the same element of the dataset, since it would be written
    /// twice.
    fn may_be_stored(&mut self, fragment: &Fragment, decl: &FragmentDecl) -> Eval<()> {
        let Some(role) = decl.roles.first() else { return Ok(()) };
        let leaves = fragment.lower().map_err(|e| Diagnostic::new(decl.name.span, e.to_string()))?;
        self.charge(8 * leaves.len() as u64)?;
        let (vars, message) = match crate::overlap::decide(&leaves) {
            Writable::Yes => return Ok(()),
            Writable::No { vars, column } => (vars, format!("an element of `{column}` stands here twice")),
            Writable::NotProven { vars, column } => {
                (vars, format!("an element of `{column}` may stand here twice; that cannot be excluded"))
            }
        };
        let find = |number: usize| fragment.vars.get(number).map_or("", |v| &*v.name).to_owned();
        let names = (find(vars.0), find(vars.1));
        let span_of = |name: &str| {
            decl.items.iter().find_map(|item| match item {
                FragmentItem::Var(var) if &*var.name.text == name => Some(var.path.span),
                _ => None,
            })
        };
        let mut diagnostic = Diagnostic::new(span_of(&names.1).unwrap_or(decl.name.span), message)
            .note(role.span, "a stored fragment holds every element once");
        if names.0 != names.1 {
            diagnostic =
                diagnostic.note(span_of(&names.0).unwrap_or(decl.name.span), "the other one is here");
        }
        Err(diagnostic.into())
    }

    /// A fragment that holds all of one dataset variable, laid out as declared.
    pub(crate) fn whole(&mut self, id: usize) -> Eval<Fragment> {
        let variable = self.variable(id)?;
        let span = self.symbols.var_at(id).map_or(Span::default(), |v| v.name.span);
        let extents: Option<Vec<u64>> = variable.extents.iter().copied().collect();
        let Some(extents) = extents else {
            return Err(Diagnostic::new(span, format!("`{}` grows", variable.name))
                .label("expected fixed extents only")
                .into());
        };
        let strides = variable.order.strides(&variable.extents, variable.ty.size());
        let dims = extents.iter().zip(strides).enumerate();
        let dims = dims
            .map(|(n, (&extent, stride))| DatasetDim {
                extent: Some(extent),
                stride,
                map: IndexMap::identity(n),
            })
            .collect();
        let (element, align) = (variable.ty.clone(), variable.ty.align());
        let size = total(element.size(), &extents).ok_or_else(|| too_large(span, "this variable"))?;
        let field = FieldRef { path: "".into(), ty: element.clone(), dataset_offset: 0, offset: 0 };
        let var = FragmentVar {
            name: Arc::clone(&variable.name),
            iteration: None,
            offset: 0,
            align,
            extents,
            order: variable.order.clone(),
            element,
            fields: vec![field],
            dims,
            variable,
        };
        Ok(Fragment {
            name: Arc::clone(&var.name),
            role: Role::View,
            params: Vec::new(),
            size,
            align,
            vars: vec![var],
        })
    }
}

fn whole(target: &Target) -> FieldRef {
    FieldRef {
        path: Arc::clone(&target.path),
        ty: target.ty.clone(),
        dataset_offset: target.dataset_offset,
        offset: 0,
    }
}

/// Refuses a number as an index that is outside the extent.
fn inside(index: &IndexExpr, map: &IndexMap, extent: Option<u64>, step: &Step) -> Result<(), Stop> {
    let Some(extent) = extent.filter(|_| map.source == Source::Constant) else { return Ok(()) };
    if u64::try_from(map.b).is_ok_and(|b| b < extent) {
        return Ok(());
    }
    let expected = match extent {
        0 => "expected no index: the extent is 0".to_owned(),
        n => format!("expected 0 to {}", n - 1),
    };
    Err(Diagnostic::new(index.span, format!("the index {} is outside of `{}`", map.b, step.name.text))
        .label(expected)
        .into())
}
