package jobspec

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var durationType = reflect.TypeFor[time.Duration]()

// assignValue stores the value of an attribute in a field. Null leaves the field unset.
func (p *parser) assignValue(dst reflect.Value, v cty.Value, a *hclsyntax.Attribute) bool {
	if v.IsNull() {
		return true
	}
	if err := setValue(dst, v); err != nil {
		p.errorf(a.Expr.Range(), "Incorrect value", "%s must be %s: %v.", a.Name, describe(dst.Type()), err)
		return false
	}
	return true
}

func setValue(dst reflect.Value, v cty.Value) error {
	t := dst.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		elem := reflect.New(t.Elem())
		if err := setValue(elem.Elem(), v); err != nil {
			return err
		}
		dst.Set(elem)
		return nil
	case t == durationType:
		d, err := duration(v)
		dst.SetInt(int64(d))
		return err
	case t.Kind() == reflect.Interface:
		dst.Set(reflect.ValueOf(anyValue(v)))
		return nil
	case t.Kind() == reflect.Slice:
		return setSlice(dst, v)
	case t.Kind() == reflect.Map:
		return setMap(dst, v)
	}
	return setScalar(dst, v)
}

func setScalar(dst reflect.Value, v cty.Value) error {
	switch dst.Kind() {
	case reflect.String:
		s, err := convert.Convert(v, cty.String)
		if err != nil {
			return err
		}
		dst.SetString(s.AsString())
	case reflect.Bool:
		b, err := convert.Convert(v, cty.Bool)
		if err != nil {
			return err
		}
		dst.SetBool(b.True())
	default:
		n, err := convert.Convert(v, cty.Number)
		if err != nil {
			return err
		}
		return setInt(dst, n.AsBigFloat())
	}
	return nil
}

func setInt(dst reflect.Value, f *big.Float) error {
	if !f.IsInt() {
		return fmt.Errorf("%s has a fraction", f.Text('g', 10))
	}
	if dst.CanUint() {
		n, acc := f.Uint64()
		if acc != big.Exact || dst.OverflowUint(n) {
			return fmt.Errorf("%s is out of range", f.Text('g', 10))
		}
		dst.SetUint(n)
		return nil
	}
	n, acc := f.Int64()
	if acc != big.Exact || dst.OverflowInt(n) {
		return fmt.Errorf("%s is out of range", f.Text('g', 10))
	}
	dst.SetInt(n)
	return nil
}

// duration parses a string such as "1h30m", or an integer number of nanoseconds.
func duration(v cty.Value) (time.Duration, error) {
	if v.Type() == cty.Number {
		n, acc := v.AsBigFloat().Int64()
		if acc != big.Exact {
			return 0, errors.New("a number must be an integer of nanoseconds")
		}
		return time.Duration(n), nil
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil {
		return 0, err
	}
	return time.ParseDuration(s.AsString())
}

func setSlice(dst reflect.Value, v cty.Value) error {
	if !v.CanIterateElements() || v.Type().IsMapType() || v.Type().IsObjectType() {
		return fmt.Errorf("it is a %s", v.Type().FriendlyName())
	}
	out := reflect.MakeSlice(dst.Type(), 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() {
			return errors.New("an element is null")
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		if err := setValue(elem, e); err != nil {
			return fmt.Errorf("invalid element: %w", err)
		}
		out = reflect.Append(out, elem)
	}
	dst.Set(out)
	return nil
}

func setMap(dst reflect.Value, v cty.Value) error {
	if !v.Type().IsMapType() && !v.Type().IsObjectType() {
		return fmt.Errorf("it is a %s", v.Type().FriendlyName())
	}
	out := reflect.MakeMap(dst.Type())
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		if e.IsNull() {
			continue
		}
		elem := reflect.New(dst.Type().Elem()).Elem()
		if err := setValue(elem, e); err != nil {
			return fmt.Errorf("invalid value of %s: %w", k.AsString(), err)
		}
		out.SetMapIndex(reflect.ValueOf(k.AsString()), elem)
	}
	dst.Set(out)
	return nil
}

// anyValue converts a value to the types of encoding/json, but integers to int.
func anyValue(v cty.Value) any {
	if v.IsNull() {
		return nil
	}
	t := v.Type()
	switch {
	case t == cty.String:
		return v.AsString()
	case t == cty.Bool:
		return v.True()
	case t == cty.Number:
		f := v.AsBigFloat()
		if n, acc := f.Int64(); acc == big.Exact {
			return int(n)
		}
		n, _ := f.Float64()
		return n
	case t.IsMapType() || t.IsObjectType():
		out := map[string]any{}
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			out[k.AsString()] = anyValue(e)
		}
		return out
	case v.CanIterateElements():
		out := []any{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			out = append(out, anyValue(e))
		}
		return out
	}
	return nil
}
