package jobspec

import (
	"errors"
	"fmt"
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/open-nomad/open-nomad/internal/pattern"
)

// maxWork is the budget for all expressions of one Parse, in units of work. A byte
// costs one unit. An evaluation step costs stepWork units, a list element
// elemWork units.
const (
	maxWork  = 64 << 20
	stepWork = 512
	elemWork = 32
)

var errWork = errors.New("the expressions of this file exceed the limit on work")

// budget counts the work of evaluations. Only references, loops and functions can
// make a value large, so only these are charged.
type budget struct{ spent int }

// charge spends n units. It returns an error if the budget is exceeded.
func (b *budget) charge(n int) error {
	if n < 0 || n > maxWork-b.spent {
		b.spent = maxWork
		return errWork
	}
	b.spent += n
	return nil
}

// chargeValue charges the cost of visiting all of v.
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

// guarded is an expression that charges the budget for its value.
type guarded struct {
	hclsyntax.Expression
	budget *budget
}

// Value evaluates the expression, unless the budget is exceeded.
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

// guard wraps functions. A call is charged for its arguments and its cost before the
// call, and for its result afterwards.
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

// costs holds the functions whose work is not linear in the size of their arguments.
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
			return 0, errors.New("the cost of bcrypt is at most 12")
		}
		return maxWork / 16, nil
	},
	"rsadecrypt": func([]cty.Value) (float64, error) { return maxWork / 1024, nil },
	"parseint":   square,
	"yamldecode": func(args []cty.Value) (float64, error) {
		if len(aliases().FindAllString(asText(args[0]), 11)) > 10 {
			return 0, errors.New("a YAML document has at most 10 aliases")
		}
		return 0, nil
	},
}

var (
	aliases    = pattern.Lazy(`(?:^|[\s\[\]{},:-])\*[^\s*]`)
	formatVerb = pattern.Lazy(`%[^a-zA-Z%]*[0-9]{4}|%[^a-zA-Z%]*\*`)
)

// widths rejects formats that pad to thousands of characters.
func widths(args []cty.Value) (float64, error) {
	if formatVerb().MatchString(asText(args[0])) {
		return 0, fmt.Errorf("a width in a format has at most 3 digits")
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

// length returns the number of elements, or 0 for a value without elements.
func length(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 0
	}
	return float64(v.LengthInt())
}

// text returns the length of a string, or 0 for any other value.
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
