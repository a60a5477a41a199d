//! What a call is asked before anything is planned: whether its arguments fit the kernel, whether what it writes shares memory with
//! nothing else, and whether the conditions that the kernel asserts hold. Out: the extents and the device.
use crate::argument::{ArgumentKind, Target};
use crate::call::{Call, Checked};
use crate::device::Device;
use crate::embedded::Decoded;
use crate::error::{Error, Result};
use crate::outputs::Outputs;
use cleave_core::axis::{AxisId, AxisSet};
use cleave_core::dtype::DType;
use cleave_core::extent;
use cleave_core::kernel::{Assertion, Kernel};
use cleave_core::predicate::Table;

impl<O: Outputs> Call<'_, O> {
    pub(crate) fn check(&self) -> Result<Checked> {
        let decoded = self.kernel.decoded()?;
        let kernel = &decoded.file.kernel;
        let graph = &kernel.graph;
        let instance = decoded.file.instances.iter().position(|i| i.types[..] == self.types[..]).ok_or_else(|| self.unknown_types(decoded))?;
        let arguments = |message: String| Error::Arguments { kernel: kernel.name.clone(), message };
        if self.arguments.len() != graph.inputs.len() {
            return Err(arguments(format!("it takes {} arguments, {} were given", graph.inputs.len(), self.arguments.len())));
        }
        let returned = || graph.outputs.iter().filter(|o| o.in_place.is_none());
        if O::TYPES.len() != returned().count() {
            return Err(arguments(format!("it returns {} tensors, {} are asked for", returned().count(), O::TYPES.len())));
        }
        let types = |tensor: &str, declared: DType, found: DType| match declared == found {
            true => Ok(()),
            false => Err(Error::Element { kernel: kernel.name.clone(), tensor: tensor.into(), declared: declared.name().into(), found: found.name().into() }),
        };
        let mut first: Option<(&str, Device)> = None;
        let mut shapes = Vec::with_capacity(self.arguments.len());
        for (argument, input) in self.arguments.iter().zip(&graph.inputs) {
            let declared = input.element.resolve(&self.types);
            match &argument.kind {
                ArgumentKind::Scalar { dtype, word } if input.storage.dims.is_empty() => {
                    types(&input.name, declared, *dtype)?;
                    let extent = *word as u32 as i32 as i64;
                    if input.extent.is_some() && extent < 0 {
                        return Err(arguments(format!("`{}` is larger than any extent", input.name)));
                    }
                    shapes.push(input.extent.map(|_| vec![extent]))
                }
                ArgumentKind::Scalar { .. } => return Err(arguments(format!("`{}` is a tensor, a number was given", input.name))),
                ArgumentKind::Tensor(_) | ArgumentKind::InPlace(..) if input.storage.dims.is_empty() => {
                    return Err(arguments(format!("`{}` is a number, a tensor was given", input.name)));
                }
                ArgumentKind::Tensor(t) | ArgumentKind::InPlace(t, _) => {
                    types(&input.name, declared, t.dtype)?;
                    let device = t.device();
                    match &first {
                        Some((name, d)) if *d != device => return Err(self.on_two_devices(decoded, name, d, &input.name, &device)),
                        Some(_) => {}
                        None => first = Some((&input.name, device)),
                    }
                    shapes.push(Some(t.layout.shape.iter().map(|n| *n as i64).collect()))
                }
            }
        }
        for (o, found) in returned().zip(O::TYPES) {
            types(&o.name, o.element.resolve(&self.types), *found)?
        }
        let extents = extent::solve(graph, &shapes).map_err(|source| Error::Extents { kernel: kernel.name.clone(), source: Box::new(source) })?;
        self.assert(kernel, &extents)?;
        Ok(Checked { decoded, instance, extents, device: first.map_or(Device::cpu(), |f| f.1) })
    }

    /// What is written shares memory with no other argument or target, nor with itself.
    pub(crate) fn check_memory(&self, kernel: &Kernel, returned: &[Target]) -> Result<()> {
        let overlap = |a: (u64, u64), b: (u64, u64)| a.0 < b.1 && b.0 < a.1;
        let aliased = |output: &str, other: &str| Err(Error::Aliased { kernel: kernel.name.clone(), output: output.into(), other: other.into() });
        let inputs = || self.arguments.iter().zip(&kernel.graph.inputs).enumerate().filter_map(|(i, (a, input))| Some((i, a.as_tensor()?.bytes(), input)));
        // with the argument that it stands in place of
        let in_place = self.arguments.iter().zip(&kernel.graph.inputs).enumerate();
        let in_place = in_place.filter_map(|(i, (a, input))| a.target().map(|t| (Some(i), t.bytes(), &t.layout, &input.name)));
        let outputs = kernel.graph.outputs.iter().filter(|o| o.in_place.is_none());
        let written = in_place.chain(returned.iter().zip(outputs).map(|(t, o)| (None, t.bytes(), &t.layout, &o.name)));
        for (own, bytes, layout, name) in written {
            if let Some((_, _, other)) = inputs().find(|(i, b, _)| Some(*i) != own && overlap(*b, bytes)) {
                return aliased(name, &other.name);
            }
            if layout.overlaps_itself() {
                return Err(Error::Overlap { kernel: kernel.name.clone(), output: name.clone(), strides: layout.strides.to_vec() });
            }
        }
        for (i, target) in returned.iter().enumerate() {
            if let Some(j) = (0..i).find(|j| overlap(returned[*j].bytes(), target.bytes())) {
                let name = |i: usize| kernel.graph.outputs.iter().filter(|o| o.in_place.is_none()).nth(i).map_or("", |o| &o.name);
                return aliased(name(i), name(j));
            }
        }
        Ok(())
    }

    /// The conditions that the kernel's body asserts.
    fn assert(&self, kernel: &Kernel, extents: &[i64]) -> Result<()> {
        let extent = |a: AxisId| extents[a.0 as usize];
        let scalar = |t: &Table| match self.arguments.get(t.input.index()).map(|a| &a.kind) {
            Some(ArgumentKind::Scalar { word, .. }) => *word as u32 as i32 as i64,
            _ => 0,
        };
        let fails = |a: &&Assertion| !a.predicate.holds(&|_| 0, &extent, &scalar);
        let Some(failed) = kernel.assertions.iter().find(fails) else { return Ok(()) };
        let axes: AxisSet = failed.predicate.clauses.iter().flatten().flat_map(|a| a.all_extents()).collect();
        let known = axes.iter().map(|a| format!("extent::<{}>() is {}", kernel.graph.axis(a), extent(a)));
        let tables = failed.predicate.clauses.iter().flatten().flat_map(|a| a.all_tables());
        let mut scalars: Vec<String> = tables.map(|t| format!("{} is {}", kernel.graph.input(t.input).name, scalar(t))).collect();
        scalars.sort();
        scalars.dedup();
        Err(Error::Assertion {
            kernel: kernel.name.clone(),
            condition: failed.condition.clone(),
            message: failed.message.as_ref().map_or(String::new(), |m| format!(" ({m})")),
            values: known.chain(scalars).collect::<Vec<_>>().join(", "),
        })
    }

    fn unknown_types(&self, decoded: &Decoded) -> Error {
        let kernel = &decoded.file.kernel;
        // the parameter at fault: the first whose type is not listed
        let listed = |(param, found): &(&cleave_core::kernel::Param, &DType)| !param.types.contains(found);
        match kernel.params.iter().zip(&self.types).find(listed) {
            Some((param, found)) => Error::Types {
                kernel: kernel.name.clone(),
                parameter: param.name.clone(),
                found: found.name().into(),
                built: param.types.iter().map(|t| t.name()).collect::<Vec<_>>().join(", "),
            },
            None => Error::Plan { kernel: kernel.name.clone() },
        }
    }

    fn on_two_devices(&self, decoded: &Decoded, first: &str, on: &Device, second: &str, other: &Device) -> Error {
        Error::Devices {
            kernel: decoded.file.kernel.name.clone(),
            first: first.into(),
            first_device: on.to_string().into(),
            second: second.into(),
            second_device: other.to_string().into(),
        }
    }

    /// Targets have the outputs' shapes and are on the inputs' device.
    pub(crate) fn check_targets(&self, checked: &Checked, targets: &[Target]) -> Result<()> {
        let kernel = &checked.decoded.file.kernel;
        let first = || self.arguments.iter().zip(&kernel.graph.inputs).find_map(|(a, i)| a.as_tensor().map(|_| i.name.as_str()));
        for (target, output) in targets.iter().zip(kernel.graph.outputs.iter().filter(|o| o.in_place.is_none())) {
            let expected = extent::shape(&output.storage, &checked.extents);
            if !expected.iter().copied().eq(target.layout.shape.iter().map(|n| *n as i64)) {
                return Err(Error::Target { kernel: kernel.name.clone(), output: output.name.clone(), expected, found: target.layout.shape.to_vec() });
            }
            if target.device() != checked.device {
                return Err(self.on_two_devices(checked.decoded, first().unwrap_or_default(), &checked.device, &output.name, &target.device()));
            }
        }
        Ok(())
    }
}
