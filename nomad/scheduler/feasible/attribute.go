package feasible

import (
	"math/big"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// unit is a unit of device attributes. Values of units with the same base are comparable.
type unit struct {
	base   string
	factor *big.Rat // base units per unit
}

// units are the known units by name.
var units = knownUnits()

func knownUnits() map[string]unit {
	out := map[string]unit{}
	add := func(base, name string, factor *big.Rat) { out[name] = unit{base, factor} }
	power := func(of, exponent int64) *big.Rat {
		return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(of), big.NewInt(exponent), nil))
	}
	for base, suffix := range map[string]string{"byte": "", "byte rate": "/s"} {
		add(base, "kB"+suffix, power(1000, 1))
		for i, prefix := range []string{"K", "M", "G", "T", "P", "E"} {
			add(base, prefix+"B"+suffix, power(1000, int64(i+1)))
			add(base, prefix+"iB"+suffix, power(1024, int64(i+1)))
		}
	}
	add("hertz", "MHz", power(1000, 2))
	add("hertz", "GHz", power(1000, 3))
	add("watt", "mW", big.NewRat(1, 1000))
	add("watt", "W", power(1000, 0))
	add("watt", "kW", power(1000, 1))
	add("watt", "MW", power(1000, 2))
	add("watt", "GW", power(1000, 3))
	return out
}

// ParseAttribute reads a literal of a device constraint, such as "11 GiB", "1.5", "true" or "ampere".
func ParseAttribute(s string) *nomad.Attribute {
	end := strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune("+-.0123456789", r) })
	if end < 0 {
		end = len(s)
	}
	number, name := s[:end], strings.TrimSpace(s[end:])
	if _, known := units[name]; known || name == "" {
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			return &nomad.Attribute{Int: &n, Unit: name}
		}
		if f, err := strconv.ParseFloat(number, 64); err == nil {
			return &nomad.Attribute{Float: &f, Unit: name}
		}
	}
	if b, err := strconv.ParseBool(s); err == nil {
		return &nomad.Attribute{Bool: &b}
	}
	return textAttribute(s)
}

func textAttribute(s string) *nomad.Attribute { return &nomad.Attribute{String: &s} }

// attributeText returns the value without its unit, for operators that compare text.
func attributeText(a *nomad.Attribute) string {
	switch {
	case a.String != nil:
		return *a.String
	case a.Int != nil:
		return strconv.FormatInt(*a.Int, 10)
	case a.Float != nil:
		return strconv.FormatFloat(*a.Float, 'g', -1, 64)
	case a.Bool != nil:
		return strconv.FormatBool(*a.Bool)
	}
	return ""
}

// attributeAmount returns a number in base units. Numbers of an unknown unit have it as their base.
func attributeAmount(a *nomad.Attribute) (amount *big.Rat, base string, ok bool) {
	amount = new(big.Rat)
	switch {
	case a.Int != nil:
		amount.SetInt64(*a.Int)
	case a.Float != nil:
		if amount.SetFloat64(*a.Float) == nil { // infinite, or not a number
			return nil, "", false
		}
	default:
		return nil, "", false
	}
	u, known := units[a.Unit]
	if !known {
		return amount, "unit " + a.Unit, true
	}
	return amount.Mul(amount, u.factor), u.base, true
}

// compareAttributes compares two numbers of units with one base, two texts, or two booleans, of which false is the
// lesser. ok is false if the values are not comparable.
func compareAttributes(l, r *nomad.Attribute) (order int, ok bool) {
	if a, base, number := attributeAmount(l); number {
		b, other, also := attributeAmount(r)
		if !also || base != other {
			return 0, false
		}
		return a.Cmp(b), true
	}
	switch {
	case l.String != nil && r.String != nil:
		return strings.Compare(*l.String, *r.String), true
	case l.Bool != nil && r.Bool != nil:
		return strings.Compare(strconv.FormatBool(*l.Bool), strconv.FormatBool(*r.Bool)), true
	}
	return 0, false
}
