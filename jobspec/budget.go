package jobspec

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// maxWork is how many units of work all expressions of one Parse may take. To
// touch a byte takes one; a step of an evaluation and an element of a list take
// as much as this many bytes.
const (
	maxWork  = 64 << 20
	stepWork = 512
	elemWork = 32
)

var errWork = errors.New("the expressions of this file do too much work")

// budget counts the work of evaluations. Nothing in an expression can be large
// unless a reference, a loop or a function made it so; those three are charged.
type budget struct{ spent int }

// charge takes n units and says whether there were as many.
func (b *budget) charge(n int) error {
	if n < 0 || n > maxWork-b.spent {
		b.spent = maxWork
		return errWork
	}
	b.spent += n
	return nil
}

// chargeValue takes what it costs to look at the whole value.
func (b *budget) chargeValue(v cty.Value) error {
	if err := b.charge(elemWork); err != nil {
		return err
	}
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() {
		return nil
	}
	t := v.Type()
	switch {
	case t == cty.String:
		return b.charge(len(v.AsString()))
	case t == cty.Number:
		if f := v.AsBigFloat(); f.IsInf() || f.MantExp(nil) > 4096 || f.MantExp(nil) < -4096 {
			return errors.New("a number is too large")
		}
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			key, elem := it.Element()
			if t.IsMapType() || t.IsObjectType() {
				if err := b.charge(len(key.AsString())); err != nil {
					return err
				}
			}
			if err := b.chargeValue(elem); err != nil {
				return err
			}
		}
	}
	return nil
}

// guarded is an expression whose value is charged.
type guarded struct {
	hclsyntax.Expression
	budget *budget
}

// Value evaluates the expression unless the budget is used up.
func (g *guarded) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if err := g.budget.charge(stepWork); err != nil {
		return cty.DynamicVal, refuse(g.Range(), "Too much work", err.Error())
	}
	v, diags := g.Expression.Value(ctx)
	if err := g.budget.chargeValue(v); err != nil {
		return cty.DynamicVal, append(diags, refuse(g.Range(), "Too much work", err.Error())...)
	}
	return v, diags
}

// guard returns functions that charge their arguments, and beyond that what they
// make of them, before they work and their result after.
func (b *budget) guard(in map[string]function.Function) map[string]function.Function {
	out := make(map[string]function.Function, len(in))
	for name, f := range in {
		out[name] = b.guardFunction(f, costs[name])
	}
	return out
}

func (b *budget) guardFunction(f function.Function, cost func([]cty.Value) (float64, error)) function.Function {
	check := func(args []cty.Value) error {
		if err := b.charge(stepWork); err != nil {
			return err
		}
		for _, a := range args {
			if !a.Type().IsCapsuleType() {
				if err := b.chargeValue(a); err != nil {
					return err
				}
			}
		}
		if cost == nil {
			return nil
		}
		n, err := cost(args)
		if err != nil {
			return err
		}
		return b.charge(int(math.Min(n, maxWork+1)))
	}
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := check(args); err != nil {
				return cty.NilType, err
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			v, err := f.Call(args)
			if err != nil {
				return v, err
			}
			return v, b.chargeValue(v)
		},
	})
}

// costs are the functions whose work is more than their arguments are long.
var costs = map[string]func(args []cty.Value) (float64, error){
	"setproduct": func(args []cty.Value) (float64, error) {
		n := 1.0
		for _, a := range args {
			n *= length(a)
		}
		return n * float64(len(args)) * elemWork, nil
	},
	"join": func(args []cty.Value) (float64, error) {
		n := 0.0
		for _, a := range args[1:] {
			n += length(a)
		}
		return n * text(args[0]), nil
	},
	"replace": func(args []cty.Value) (float64, error) { return (text(args[0]) + 1) * (text(args[2]) + 1), nil },
	"regex_replace": func(args []cty.Value) (float64, error) {
		return (text(args[0]) + 1) * (text(args[1]) + text(args[2]) + 1), nil
	},
	"indent":     func(args []cty.Value) (float64, error) { return number(args[0]) * text(args[1]), nil },
	"distinct":   square,
	"contains":   func(args []cty.Value) (float64, error) { return length(args[0]), nil },
	"format":     widths,
	"formatlist": widths,
	"bcrypt": func(args []cty.Value) (float64, error) {
		if len(args) > 1 && number(args[1]) > 12 {
			return 0, errors.New("the cost of bcrypt may be 12 at most")
		}
		return maxWork / 16, nil
	},
	"rsadecrypt": func([]cty.Value) (float64, error) { return maxWork / 1024, nil },
	"parseint":   square,
	"yamldecode": func(args []cty.Value) (float64, error) {
		if len(aliases.FindAllString(asText(args[0]), 11)) > 10 {
			return 0, errors.New("a YAML text may hold 10 aliases at most")
		}
		return 0, nil
	},
}

var (
	aliases    = regexp.MustCompile(`(?:^|[\s\[\]{},:-])\*[^\s*]`)
	formatVerb = regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{4}|%[^a-zA-Z%]*\*`)
)

// widths refuses formats that pad to thousands of characters.
func widths(args []cty.Value) (float64, error) {
	if formatVerb.MatchString(asText(args[0])) {
		return 0, fmt.Errorf("a width in a format may have 3 digits at most")
	}
	n := 0.0
	for _, a := range args[1:] {
		n += length(a)
	}
	return (n + 1) * (text(args[0]) + 1), nil
}

func square(args []cty.Value) (float64, error) {
	n := length(args[0]) + text(args[0])
	return n * n / 16, nil
}

// length is the number of elements, 0 for what has none.
func length(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 0
	}
	return float64(v.LengthInt())
}

// text is the length of a string, 0 for another value.
func text(v cty.Value) float64 { return float64(len(asText(v))) }

func asText(v cty.Value) string {
	v, _ = v.Unmark()
	if v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}

func number(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v.Type() != cty.Number || v.IsNull() || !v.IsKnown() {
		return 0
	}
	f, _ := v.AsBigFloat().Float64()
	return math.Abs(f)
}
