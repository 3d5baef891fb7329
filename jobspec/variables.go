package jobspec

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// variable is a declared input variable.
type variable struct {
	name string
	at   hcl.Range
	typ  cty.Type // cty.NilType without type and default
	// value is the default until another source sets it. cty.NilVal means no value.
	value cty.Value
	// valueAt is the position of value.
	valueAt hcl.Range
	// given is true if value is not the default.
	given       bool
	validations []*hclsyntax.Body
}

// variables returns the values of all declared variables as one object.
func (p *parser) variables(top topLevel) cty.Value {
	vars := p.declareAll(top)
	if p.diags.HasErrors() {
		return cty.DynamicVal
	}
	p.assign(vars)
	return p.finish(vars)
}

// declareAll decodes the variable declarations of a file.
func (p *parser) declareAll(top topLevel) map[string]*variable {
	vars := map[string]*variable{}
	declare := func(v *variable) {
		if first, ok := vars[v.name]; ok {
			p.errorf(v.at, "Duplicate variable", "The variable %q is declared already at %s.", v.name, first.at)
			return
		}
		vars[v.name] = v
	}
	for _, b := range top.variables {
		declare(p.declare(b))
	}
	for _, b := range top.legacy {
		for _, blk := range b.Body.Blocks {
			p.errorf(blk.TypeRange, "Unsupported block type", "A variables block has only name = default pairs.")
		}
		for _, a := range sortedAttributes(b.Body) {
			v := &variable{name: a.Name, at: a.NameRange, valueAt: a.Expr.Range()}
			if v.value = p.constant(a.Expr); v.value != cty.NilVal {
				v.typ = v.value.Type()
			}
			declare(v)
		}
	}
	return vars
}

// declare decodes a variable block.
func (p *parser) declare(b *hclsyntax.Block) *variable {
	v := &variable{name: b.Labels[0], at: b.DefRange(), typ: cty.NilType}
	if !hclsyntax.ValidIdentifier(v.name) {
		p.errorf(b.LabelRanges[0], "Invalid variable name", "A name starts with a letter and has only letters, digits, - and _.")
	}
	var fallback *hclsyntax.Attribute
	for _, a := range sortedAttributes(b.Body) {
		switch a.Name {
		case "type":
			t, diags := typeexpr.TypeConstraint(a.Expr)
			p.report(diags)
			if !diags.HasErrors() && t != cty.DynamicPseudoType {
				v.typ = t
			}
		case "default":
			fallback = a
		case "description":
			p.constant(a.Expr)
		default:
			p.errorf(a.NameRange, "Unsupported argument", "%q is not expected here; expected one of: default, description, type.", a.Name)
		}
	}
	if fallback != nil {
		v.valueAt = fallback.Expr.Range()
		if v.value = p.constant(fallback.Expr); v.value != cty.NilVal {
			if v.typ == cty.NilType && !v.value.IsNull() {
				v.typ = v.value.Type()
			}
			p.convert(v)
		}
	}
	for _, blk := range b.Body.Blocks {
		if blk.Type != "validation" {
			p.errorf(blk.TypeRange, "Unsupported block type", "%q is not expected here; expected: validation.", blk.Type)
			continue
		}
		v.validations = append(v.validations, blk.Body)
	}
	return v
}

// constant evaluates an expression without references.
func (p *parser) constant(e hclsyntax.Expression) cty.Value {
	v, diags := p.prepareConstant(e).Value(&hcl.EvalContext{Functions: p.functions})
	p.report(diags)
	if diags.HasErrors() {
		return cty.NilVal
	}
	return v
}

// prepareConstant guards loops and reports each reference as a fault.
func (p *parser) prepareConstant(e hclsyntax.Expression) hclsyntax.Expression {
	for _, t := range e.Variables() {
		p.errorf(t.SourceRange(), "Variables not allowed", "A reference to %q is not allowed here: the value must be a constant.", t.RootName())
	}
	return p.prepare(e, nil)
}

// assign sets variables from the other sources, in ascending precedence.
func (p *parser) assign(vars map[string]*variable) {
	for _, entry := range p.cfg.Env {
		name, raw, _ := strings.Cut(entry, "=")
		if name, ok := strings.CutPrefix(name, "NOMAD_VAR_"); ok && vars[name] != nil {
			p.assignText(vars[name], raw, "NOMAD_VAR_"+name)
		}
	}
	for _, path := range p.cfg.VarFiles {
		p.assignFile(vars, path)
	}
	if p.cfg.VarContent != "" {
		p.assignContent(vars, "variables", []byte(p.cfg.VarContent))
	}
	for _, flag := range p.cfg.Vars {
		name, raw, ok := strings.Cut(flag, "=")
		if !ok {
			p.errorf(hcl.Range{Filename: "-var"}, "Invalid -var", "%q is not of the form name=value.", flag)
			continue
		}
		if v := vars[name]; v != nil {
			p.assignText(v, raw, "-var "+name)
		} else {
			p.undeclared(name, hcl.Range{Filename: "-var " + name})
		}
	}
}

// undeclared records a fault for a value of an undeclared variable, if Strict is set.
func (p *parser) undeclared(name string, at hcl.Range) {
	if p.cfg.Strict {
		p.errorf(at, "Undefined variable", "The job file declares no variable %q: add a variable %q block or remove the value.", name, name)
	}
}

// assignText sets a variable from text. The text is a literal for strings, numbers and
// variables without a type, and an HCL expression for other types.
func (p *parser) assignText(v *variable, raw, source string) {
	v.valueAt = hcl.Range{Filename: source}
	p.sources[source] = nil
	if v.typ == cty.NilType || v.typ == cty.String || v.typ == cty.Number {
		v.value, v.given = cty.StringVal(raw), true
		p.convert(v)
		return
	}
	if !p.parsable(source, []byte(raw)) {
		return
	}
	e, diags := hclsyntax.ParseExpression([]byte(raw), source, hcl.InitialPos)
	p.report(diags)
	if diags.HasErrors() {
		return
	}
	p.sources[source] = []byte(raw)
	if val := p.constant(e); val != cty.NilVal {
		v.value, v.given = val, true
		p.convert(v)
	}
}

// convert converts the value of a variable to its type.
func (p *parser) convert(v *variable) {
	if v.typ == cty.NilType || v.value == cty.NilVal {
		return
	}
	val, err := convert.Convert(v.value, v.typ)
	if err != nil {
		p.errorf(v.valueAt, "Invalid value for variable", "The variable %q is a %s: %v.", v.name, typeName(v.typ), err)
		return
	}
	v.value = val
}

// typeName returns a type in the syntax of a job file.
func typeName(t cty.Type) string { return typeexpr.TypeString(t) }

// finish checks that each variable has a value and passes its validations.
func (p *parser) finish(vars map[string]*variable) cty.Value {
	values := map[string]cty.Value{}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v := vars[name]
		if v.value == cty.NilVal {
			p.errorf(v.at, "Missing value for variable",
				"The variable %q has no default: give it a value with -var %s=<value>, in a variable file, or as NOMAD_VAR_%s.", name, name, name)
			continue
		}
		values[name] = v.value
		for _, body := range v.validations {
			p.validate(v, body)
		}
	}
	return cty.ObjectVal(values)
}

// validate checks one validation block of a variable.
func (p *parser) validate(v *variable, body *hclsyntax.Body) {
	for _, a := range sortedAttributes(body) {
		if a.Name != "condition" && a.Name != "error_message" {
			p.errorf(a.NameRange, "Unsupported argument", "%q is not expected here; expected one of: condition, error_message.", a.Name)
		}
	}
	cond, message := body.Attributes["condition"], body.Attributes["error_message"]
	if cond == nil || message == nil {
		p.errorf(body.MissingItemRange(), "Missing required argument", "A validation block requires condition and error_message.")
		return
	}
	sc := &scope{
		ctx: &hcl.EvalContext{Functions: p.functions,
			Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{v.name: v.value})}},
		known: map[string]bool{"var": true},
	}
	text, ok := p.eval(message.Expr, sc)
	if !ok {
		return
	}
	if text.Type() != cty.String || text.IsNull() || text.AsString() == "" {
		p.errorf(message.Expr.Range(), "Invalid validation", "error_message must be a non-empty string.")
		return
	}
	accepted, ok := p.eval(cond.Expr, sc)
	if !ok {
		return
	}
	accepted, err := convert.Convert(accepted, cty.Bool)
	if err != nil || accepted.IsNull() {
		p.errorf(cond.Expr.Range(), "Invalid validation", "condition must be true or false.")
		return
	}
	if accepted.False() {
		p.errorf(v.at, "Invalid value for variable", "%s: %s", v.name, text.AsString())
	}
}
