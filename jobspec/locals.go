package jobspec

import (
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// maxLocals is the maximum number of locals.
const maxLocals = 5000

// locals returns the values of all locals blocks as one object. A local can refer to
// variables and to other locals, in any order.
func (p *parser) locals(blocks []*hclsyntax.Block) cty.Value {
	w := &localWalk{p: p, attrs: map[string]*hclsyntax.Attribute{}, values: map[string]cty.Value{}, open: map[string]bool{}}
	var order []*hclsyntax.Attribute
	for _, b := range blocks {
		for _, blk := range b.Body.Blocks {
			p.errorf(blk.TypeRange, "Unsupported block type", "A locals block has only name = value pairs.")
		}
		for _, a := range sortedAttributes(b.Body) {
			if first := w.attrs[a.Name]; first != nil {
				p.errorf(a.NameRange, "Duplicate local", "The local %q is defined already at %s.", a.Name, first.NameRange)
				continue
			}
			w.attrs[a.Name] = a
			order = append(order, a)
		}
	}
	if len(order) > maxLocals {
		p.errorf(order[maxLocals].NameRange, "Too many locals", "A file has at most %d locals.", maxLocals)
		return cty.EmptyObjectVal
	}
	for _, a := range order {
		w.visit(a)
	}
	return cty.ObjectVal(w.values)
}

// localWalk evaluates locals in the order of their dependencies.
type localWalk struct {
	p      *parser
	attrs  map[string]*hclsyntax.Attribute
	values map[string]cty.Value
	open   map[string]bool
}

func (w *localWalk) visit(a *hclsyntax.Attribute) {
	if _, done := w.values[a.Name]; done {
		return
	}
	if w.open[a.Name] {
		w.p.errorf(a.NameRange, "Circular local", "The local %q refers to itself, directly or through other locals.", a.Name)
		w.values[a.Name] = cty.DynamicVal
		return
	}
	w.open[a.Name] = true
	needs := map[string]cty.Value{}
	for _, t := range a.Expr.Variables() {
		if t.RootName() != "local" {
			continue
		}
		for _, name := range w.named(t) {
			if other := w.attrs[name]; other != nil {
				w.visit(other)
				needs[name] = w.values[name]
			}
		}
	}
	if w.p.diags.HasErrors() {
		w.values[a.Name] = cty.DynamicVal
		return
	}
	ctx := w.p.root.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"local": cty.ObjectVal(needs)}
	v, ok := w.p.eval(a.Expr, &scope{ctx: ctx, known: w.p.root.known})
	if _, circular := w.values[a.Name]; ok && !circular {
		w.values[a.Name] = v
	} else {
		w.values[a.Name] = cty.DynamicVal
	}
}

// named returns the locals that a reference depends on: one, or all for local itself.
func (w *localWalk) named(t hcl.Traversal) []string {
	if len(t) > 1 {
		switch step := t[1].(type) {
		case hcl.TraverseAttr:
			return []string{step.Name}
		case hcl.TraverseIndex:
			if step.Key.Type() == cty.String {
				return []string{step.Key.AsString()}
			}
		}
	}
	names := make([]string, 0, len(w.attrs))
	for name := range maps.Keys(w.attrs) {
		names = append(names, name)
	}
	return names
}
