package jobspec

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// scope holds the names that expressions can refer to.
type scope struct {
	ctx *hcl.EvalContext
	// known holds the root names of references to values in ctx.
	known map[string]bool
}

// with returns a scope with one more name.
func (s *scope) with(name string, v cty.Value) *scope {
	ctx := s.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{name: v}
	return &scope{ctx: ctx, known: withNames(s.known, name)}
}

func withNames(known map[string]bool, names ...string) map[string]bool {
	out := make(map[string]bool, len(known)+len(names))
	for k := range known {
		out[k] = true
	}
	for _, n := range names {
		if n != "" {
			out[n] = true
		}
	}
	return out
}

// eval returns the value of an expression. If there is none, it records a fault and
// returns false.
func (p *parser) eval(e hclsyntax.Expression, sc *scope) (cty.Value, bool) {
	v, diags := p.prepare(e, sc.known).Value(sc.ctx)
	p.report(diags)
	if diags.HasErrors() {
		return cty.DynamicVal, false
	}
	if !v.IsWhollyKnown() {
		p.errorf(e.Range(), "Unknown value", "The value of this expression cannot be determined.")
		return v, false
	}
	return v, true
}

// prepare guards the references to known names. It replaces all other references by
// their source text: clients resolve them when the task runs.
func (p *parser) prepare(e hclsyntax.Expression, known map[string]bool) hclsyntax.Expression {
	sub := func(e hclsyntax.Expression) hclsyntax.Expression { return p.prepare(e, known) }
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		if !known[e.Traversal.RootName()] {
			return p.verbatim(e)
		}
		return &guarded{e, &p.budget}
	case *hclsyntax.RelativeTraversalExpr:
		if p.foreign(e.Source, known) {
			return p.verbatim(e)
		}
		return &hclsyntax.RelativeTraversalExpr{Source: sub(e.Source), Traversal: e.Traversal, SrcRange: e.SrcRange}
	case *hclsyntax.IndexExpr:
		if p.foreign(e.Collection, known) {
			return p.verbatim(e)
		}
		c := *e
		c.Collection, c.Key = sub(e.Collection), sub(e.Key)
		return &c
	case *hclsyntax.SplatExpr:
		if p.foreign(e.Source, known) {
			return p.verbatim(e)
		}
		c := *e
		c.Source = sub(e.Source)
		return &guarded{&c, &p.budget}
	case *hclsyntax.ForExpr:
		c := *e
		inner := withNames(known, e.KeyVar, e.ValVar)
		c.CollExpr = sub(e.CollExpr)
		if e.KeyExpr != nil {
			c.KeyExpr = &guarded{p.prepare(e.KeyExpr, inner), &p.budget}
		}
		c.ValExpr = &guarded{p.prepare(e.ValExpr, inner), &p.budget}
		if e.CondExpr != nil {
			c.CondExpr = &guarded{p.prepare(e.CondExpr, inner), &p.budget}
		}
		return &c
	case *hclsyntax.FunctionCallExpr:
		if call, ok := p.defers(e, known); ok {
			return call
		}
		c := *e
		c.Args = prepareAll(e.Args, sub)
		return &c
	}
	return prepareParts(e, sub)
}

// prepareParts prepares the parts of expressions that are not references and do not
// bind names.
func prepareParts(e hclsyntax.Expression, sub func(hclsyntax.Expression) hclsyntax.Expression) hclsyntax.Expression {
	switch e := e.(type) {
	case *hclsyntax.TemplateExpr:
		c := *e
		c.Parts = prepareAll(e.Parts, sub)
		return &c
	case *hclsyntax.TemplateWrapExpr:
		c := *e
		c.Wrapped = sub(e.Wrapped)
		return &c
	case *hclsyntax.TemplateJoinExpr:
		return &hclsyntax.TemplateJoinExpr{Tuple: sub(e.Tuple)}
	case *hclsyntax.ConditionalExpr:
		c := *e
		c.Condition, c.TrueResult, c.FalseResult = sub(e.Condition), sub(e.TrueResult), sub(e.FalseResult)
		return &c
	case *hclsyntax.BinaryOpExpr:
		c := *e
		c.LHS, c.RHS = sub(e.LHS), sub(e.RHS)
		return &c
	case *hclsyntax.UnaryOpExpr:
		c := *e
		c.Val = sub(e.Val)
		return &c
	case *hclsyntax.ParenthesesExpr:
		c := *e
		c.Expression = sub(e.Expression)
		return &c
	case *hclsyntax.TupleConsExpr:
		c := *e
		c.Exprs = prepareAll(e.Exprs, sub)
		return &c
	case *hclsyntax.ObjectConsExpr:
		c := *e
		c.Items = make([]hclsyntax.ObjectConsItem, len(e.Items))
		for i, item := range e.Items {
			c.Items[i] = hclsyntax.ObjectConsItem{KeyExpr: prepareKey(item.KeyExpr, sub), ValueExpr: sub(item.ValueExpr)}
		}
		return &c
	}
	return e
}

func prepareAll(in []hclsyntax.Expression, sub func(hclsyntax.Expression) hclsyntax.Expression) []hclsyntax.Expression {
	out := make([]hclsyntax.Expression, len(in))
	for i, e := range in {
		out[i] = sub(e)
	}
	return out
}

// prepareKey prepares a key of an object. An unquoted identifier is a literal key.
func prepareKey(e hclsyntax.Expression, sub func(hclsyntax.Expression) hclsyntax.Expression) hclsyntax.Expression {
	key, ok := e.(*hclsyntax.ObjectConsKeyExpr)
	if !ok {
		return sub(e)
	}
	if !key.ForceNonLiteral && hcl.ExprAsKeyword(key.Wrapped) != "" {
		return key
	}
	c := *key
	c.Wrapped = sub(key.Wrapped)
	return &c
}

// foreign reports whether the operand of an index or attribute expression is a reference
// that clients resolve.
func (p *parser) foreign(e hclsyntax.Expression, known map[string]bool) bool {
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return !known[e.Traversal.RootName()]
	case *hclsyntax.RelativeTraversalExpr:
		return p.foreign(e.Source, known)
	case *hclsyntax.IndexExpr:
		return p.foreign(e.Collection, known)
	case *hclsyntax.SplatExpr:
		return p.foreign(e.Source, known)
	}
	return false
}

// verbatim returns the source text of a reference as an interpolation.
func (p *parser) verbatim(e hclsyntax.Expression) hclsyntax.Expression {
	rng := e.Range()
	text := string(rng.SliceBytes(p.sources[rng.Filename]))
	if p.resolve != nil {
		return &guarded{&hclsyntax.LiteralValueExpr{Val: cty.StringVal(p.resolve(text)), SrcRange: rng}, &p.budget}
	}
	return &hclsyntax.LiteralValueExpr{Val: cty.StringVal("${" + text + "}"), SrcRange: rng}
}
