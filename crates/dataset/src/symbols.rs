//! The meaning of the names of a text, and an order in which they can be evaluated.

use std::collections::HashMap;

use crate::ast::{
    DatasetDecl, Expr, ExprKind, File, FragmentDecl, Item, Member, Name, ParamDecl, StructExpr,
};
use crate::ast::{TypeDecl, TypeExpr, TypeKind, VarDecl};
use crate::span::Span;

/// A constant or a parameter.
#[derive(Clone, Debug)]
pub(crate) struct Global {
    pub(crate) name: Name,
    pub(crate) value: GlobalValue,
    pub(crate) is_param: bool,
}

/// A constant's value or a parameter's default.
#[derive(Clone, Debug)]
pub(crate) enum GlobalValue {
    /// A parameter without a default.
    None,
    Expr(Expr),
    /// The default that several parameters share, stored once as a global without a name.
    SameAs(usize),
}

/// The position of a field in its struct.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlace {
    /// Its number among the fields, without padding.
    pub(crate) ordinal: usize,
    /// Its number among the members.
    pub(crate) member: usize,
    pub(crate) span: Span,
}

/// The declarations of a text, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) globals: Vec<Global>,
    pub(crate) global_index: HashMap<Box<str>, usize>,
    /// The globals, each after those that it uses.
    pub(crate) global_order: Vec<usize>,
    pub(crate) types: Vec<TypeDecl>,
    pub(crate) type_index: HashMap<Box<str>, usize>,
    pub(crate) datasets: Vec<DatasetDecl>,
    /// All dataset variables, as the number of the dataset, and the number in it.
    pub(crate) vars: Vec<(usize, usize)>,
    pub(crate) var_index: HashMap<Box<str>, usize>,
    pub(crate) fragments: Vec<FragmentDecl>,
    pub(crate) fragment_index: HashMap<Box<str>, usize>,
    /// The fields of each struct, by the position of the struct in the text.
    pub(crate) fields: HashMap<u32, HashMap<Box<str>, FieldPlace>>,
}

/// Two declarations with the same name: the kind, the second, and the first.
pub(crate) struct Twice {
    pub(crate) what: &'static str,
    pub(crate) second: Name,
    pub(crate) first: Span,
}

impl Symbols {
    /// Collects the declarations; if a name is declared twice, the first counts.
    pub(crate) fn collect(file: File) -> (Self, Vec<Twice>) {
        let mut symbols = Self::default();
        let mut twice = Vec::new();
        for item in file.items {
            match item {
                Item::Const(c) => symbols.add_global(c.name, GlobalValue::Expr(c.value), false, &mut twice),
                Item::Param(p) => symbols.add_params(p, &mut twice),
                Item::Type(t) => {
                    let first = symbols.type_index.get(&t.name.text).copied();
                    if let Some(first) = first.and_then(|f| symbols.types.get(f)) {
                        twice.push(Twice { what: "type", first: first.name.span, second: t.name });
                    } else {
                        symbols.type_index.insert(t.name.text.clone(), symbols.types.len());
                        symbols.types.push(t);
                    }
                }
                Item::Dataset(d) => symbols.add_dataset(d, &mut twice),
                Item::Fragment(f) => {
                    let first = symbols.fragment_index.get(&f.name.text).copied();
                    if let Some(first) = first.and_then(|n| symbols.fragments.get(n)) {
                        twice.push(Twice { what: "fragment", first: first.name.span, second: f.name });
                    } else {
                        symbols.fragment_index.insert(f.name.text.clone(), symbols.fragments.len());
                        symbols.fragments.push(f);
                    }
                }
            }
        }
        (symbols, twice)
    }

    fn add_params(&mut self, decl: ParamDecl, twice: &mut Vec<Twice>) {
        let shared = self.globals.len();
        let mut value = GlobalValue::None;
        if let (Some(default), Some(first)) = (decl.default, decl.names.first()) {
            let hidden = Name { text: "".into(), span: first.span };
            self.globals.push(Global { name: hidden, value: GlobalValue::Expr(default), is_param: false });
            value = GlobalValue::SameAs(shared);
        }
        for name in decl.names {
            self.add_global(name, value.clone(), true, twice);
        }
    }

    fn add_global(&mut self, name: Name, value: GlobalValue, is_param: bool, twice: &mut Vec<Twice>) {
        let first = self.global_index.get(&name.text).and_then(|&n| self.globals.get(n));
        if let Some(first) = first {
            let what = if first.is_param { "parameter" } else { "constant" };
            twice.push(Twice { what, first: first.name.span, second: name });
        } else {
            self.global_index.insert(name.text.clone(), self.globals.len());
            self.globals.push(Global { name, value, is_param });
        }
    }

    fn add_dataset(&mut self, dataset: DatasetDecl, twice: &mut Vec<Twice>) {
        let number = self.datasets.len();
        let names: Vec<Name> = dataset.vars.iter().map(|v| v.name.clone()).collect();
        self.datasets.push(dataset);
        for (n, name) in names.into_iter().enumerate() {
            if let Some(first) = self.var_index.get(&name.text).and_then(|&v| self.var_at(v)) {
                twice.push(Twice { what: "variable", first: first.name.span, second: name });
            } else {
                self.var_index.insert(name.text, self.vars.len());
                self.vars.push((number, n));
            }
        }
    }

    pub(crate) fn var_at(&self, id: usize) -> Option<&VarDecl> {
        let &(dataset, n) = self.vars.get(id)?;
        self.datasets.get(dataset)?.vars.get(n)
    }

    /// The type to which `ty` leads when names are followed; `ty` itself if it is primitive or unknown. The checker has
    /// verified that chains of names end.
    pub(crate) fn resolve<'s>(&'s self, mut ty: &'s TypeExpr) -> &'s TypeExpr {
        for _ in 0..=crate::MAX_DEPTH {
            let TypeKind::Named(name) = &ty.kind else { return ty };
            match self.type_index.get(&name.text).and_then(|&n| self.types.get(n)) {
                Some(decl) => ty = &decl.ty,
                None => return ty,
            }
        }
        ty
    }

    /// Looks up a field in a struct that begins at `id`.
    pub(crate) fn field(&self, id: u32, name: &str) -> Option<FieldPlace> {
        self.fields.get(&id)?.get(name).copied()
    }
}

/// The fields of a struct in order, with the member to which each belongs.
pub(crate) fn fields(structure: &StructExpr) -> impl Iterator<Item = (usize, &Name, &TypeExpr)> {
    structure.members.iter().enumerate().flat_map(|(n, member)| match member {
        Member::Fields { names, ty, .. } => names.iter().map(|name| (n, name, ty)).collect::<Vec<_>>(),
        Member::Pad(_) => Vec::new(),
    })
}

/// Calls `visit` with every name of an expression.
pub(crate) fn each_name<'e>(expr: &'e Expr, visit: &mut impl FnMut(&'e str, Span)) {
    match &expr.kind {
        ExprKind::Int(_) => {}
        ExprKind::Name(name) => visit(name, expr.span),
        ExprKind::Neg(inner) | ExprKind::Group(inner) => each_name(inner, visit),
        ExprKind::Binary(_, left, right) => {
            each_name(left, visit);
            each_name(right, visit);
        }
        ExprKind::Min(list) | ExprKind::Max(list) => list.iter().for_each(|e| each_name(e, visit)),
    }
}

/// Orders `edges.len()` items so that each comes after those on which it depends; `Err` is a cycle. It is iterative,
/// since a chain of dependencies may be as long as the text.
pub(crate) fn dependency_order(edges: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; edges.len()];
    let mut order = Vec::with_capacity(edges.len());
    for root in 0..edges.len() {
        let mut path = vec![(root, 0_usize)];
        if marks.get(root) != Some(&Mark::New) {
            continue;
        }
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            if let Some(mark) = marks.get_mut(node) {
                *mark = Mark::Open;
            }
            let target = edges.get(node).and_then(|e| e.get(*next)).copied();
            *next += 1;
            match target.map(|t| (t, marks.get(t).copied())) {
                Some((t, Some(Mark::New))) => path.push((t, 0)),
                Some((t, Some(Mark::Open))) => {
                    return Err(path.iter().map(|&(n, _)| n).skip_while(|&n| n != t).collect());
                }
                Some(_) => {}
                None => {
                    if let Some(mark) = marks.get_mut(node) {
                        *mark = Mark::Done;
                    }
                    order.push(node);
                    path.pop();
                }
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_cycles_are_named() {
        assert_eq!(dependency_order(&[vec![1], vec![2], vec![]]), Ok(vec![2, 1, 0]));
        assert_eq!(dependency_order(&[vec![1], vec![2], vec![1]]), Err(vec![1, 2]));
    }

    #[test]
    fn a_chain_as_long_as_a_text_does_not_overflow_the_stack() {
        let edges: Vec<Vec<usize>> = (0..300_000).map(|n| if n > 0 { vec![n - 1] } else { vec![] }).collect();
        assert_eq!(dependency_order(&edges).map(|o| o.len()), Ok(300_000));
    }
}
