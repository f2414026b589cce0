package graph

import "vsetrain/internal/compute/device"

// kernelOp is an op that is one kernel, and whose gradient is the gradient of that kernel. An operand is declared once,
// by the fields of the kernel that are it and its gradient; those are set before the kernel is added to a call.
type kernelOp struct {
	g  *Graph
	op *Op
	// always: the kernel writes the gradients of all arguments, so there is memory for those that nobody reads.
	always bool
	last   func() // sets what follows from the operands, where it is given

	add     func(c *Call, fields []field, grad bool)
	forward []field    // of the kernel: all but the result
	back    []field    // of its gradient: tensors where they were saved
	again   []argument // that the gradient reads too
	grads   []argument // what the gradient writes
	temp    []argument // scratch memory of the gradient
}

// field sets a field of the kernel.
type field func(c *Call)

// argument is an argument of the op, or scratch memory, and the field that is it or its gradient.
type argument struct {
	i    int // of the argument, or how many floats
	view *device.View
	ints *device.Ints
}

// kernelOf begins an op that is the kernel a, in which all is set but the operands.
func kernelOf[K any, P interface {
	*K
	device.Kernel
	SetGrad(bool)
}](g *Graph, name string, a P) *kernelOp {
	bare := *a
	k := &kernelOp{g: g, op: &Op{Name: name}}
	k.add = func(c *Call, fields []field, grad bool) {
		*a = bare
		a.SetGrad(grad)
		for _, set := range fields {
			set(c)
		}
		if k.last != nil {
			k.last()
		}
		Do[K, P](c, *a)
	}
	return k
}

// arg declares an argument that the gradient reads too, with its gradient, nil for none.
func (k *kernelOp) arg(n *Node, x, dx *device.View) {
	k.again = append(k.again, argument{i: len(k.op.in), view: x})
	k.argOnce(n, x, dx)
}

// argOnce declares an argument that the gradient does not read.
func (k *kernelOp) argOnce(n *Node, x, dx *device.View) {
	i := k.op.arg(n, dx != nil)
	k.forward = append(k.forward, func(c *Call) { *x = c.In[i] })
	if dx != nil {
		k.grads = append(k.grads, argument{i: i, view: dx})
	}
}

// ints declares an argument of int32, which the gradient reads too.
func (k *kernelOp) ints(n *Node, x *device.Ints) {
	i := k.op.arg(n, false)
	k.forward = append(k.forward, func(c *Call) { *x = c.Ints(i) })
	k.again = append(k.again, argument{i: i, ints: x})
}

// keep saves a tensor of n floats for the gradient; several fields are equal parts of it, one after the other.
func (k *kernelOp) keep(n int, fields ...*device.View) {
	i := k.op.save(n * len(fields))
	k.both(func(c *Call) {
		for p, v := range fields {
			*v = c.Saved[i].Slice(p*n, (p+1)*n)
		}
	})
}

// keepInts is keep for n int32.
func (k *kernelOp) keepInts(n int, v *device.View) {
	i := k.op.saveInts(n)
	k.both(func(c *Call) { *v = c.Saved[i] })
}

// both has a field set for the kernel and for its gradient.
func (k *kernelOp) both(f field) { k.forward, k.back = append(k.forward, f), append(k.back, f) }

// scratch is memory for n floats of the kernel, and for back of its gradient.
func (k *kernelOp) scratch(v *device.View, n, back int) {
	i := k.op.scratch(n)
	k.forward = append(k.forward, func(c *Call) { *v = c.Temp[i] })
	if back > 0 {
		k.temp = append(k.temp, argument{i: back, view: v})
	}
}

// result declares the result of the op, with its gradient, and applies the op. read: the gradient reads the result.
func (k *kernelOp) result(y, dy *device.View, read bool, shape ...int) *Node {
	out := k.op.result(shape...)
	forward := append(k.forward, func(c *Call) { *y = c.Out[out] })
	k.op.Make = func(c *Call) { k.add(c, forward, false) }
	k.op.Grad = func(in []*Node, yNode, dyNode *Node) []*Node {
		b, fields := k.op.backward(), append([]field(nil), k.back...)
		arg := func(n *Node, x argument) {
			i := b.arg(n, false)
			fields = append(fields, func(c *Call) {
				if x.ints != nil {
					*x.ints = c.Ints(i)
				} else {
					*x.view = c.In[i]
				}
			})
		}
		for _, x := range k.again {
			arg(in[x.i], x)
		}
		if read {
			arg(yNode, argument{view: y})
		}
		arg(dyNode, argument{view: dy})
		for _, x := range k.grads {
			if k.always {
				grad := b.written(x.i)
				fields = append(fields, func(c *Call) { *x.view = grad(c) })
				continue
			}
			i := b.gradient(x.i)
			fields = append(fields, func(c *Call) { *x.view = c.Out[i] })
		}
		for _, x := range k.temp {
			i := b.scratch(x.i)
			fields = append(fields, func(c *Call) { *x.view = c.Temp[i] })
		}
		b.Make = func(c *Call) { k.add(c, fields, true) }
		return k.g.gradients(b)
	}
	return k.g.apply(k.op)
}

// or returns the view where it is present, otherwise other.
func or(v, other device.View) device.View {
	if v.Present() {
		return v
	}
	return other
}

// view returns one of the views of a call, absent for an optional operand that is not there.
func view(all []device.View, i int) device.View {
	if i < 0 {
		return device.View{}
	}
	return all[i]
}

// written is gradient for a kernel that always writes it: where nobody reads it, it is in scratch memory.
func (o *Op) written(arg int) func(c *Call) device.View {
	i := o.gradient(arg)
	other := o.scratch(size(o.Outs[i]))
	return func(c *Call) device.View { return or(c.Out[i], c.Temp[other]) }
}

// product computes C = op(A) op(B) as a says, where somebody reads it.
func (c *Call) product(to device.View, a device.Gemm) {
	if to.Present() {
		a.Alpha, a.C = 1, to
		Do(c, a)
	}
}

// columnSums computes the gradient of a bias from the gradient dy of rows, where somebody reads it. A device may round
// dy meanwhile for the products that follow.
func (c *Call) columnSums(to, dy device.View, rows, columns int) {
	if to.Present() {
		Do(c, device.ColumnSum{Dst: to, X: dy, Rows: rows, Columns: columns})
	}
}
