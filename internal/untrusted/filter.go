package untrusted

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"
)

// Limits of a filter.
const (
	// MaxFilter is the maximum length of a filter in bytes.
	MaxFilter = 8 << 10
	// usualSteps and maxSteps limit the steps of the parser. It needs about 50 bytes for a step, and four times
	// the steps for each level of parentheses.
	usualSteps = 20_000
	maxSteps   = 200_000
	// maxNested limits the any and all expressions that contain each other.
	maxNested = 4
	// maxRead limits the values that one Filter reads, apart from freeRead values of each object. So three conditions
	// for each of ten tasks are not limited in a list of any length.
	maxRead  = 1_000_000
	freeRead = 400
	// matchShare converts the work of a regular expression, instructions times bytes, to read values.
	matchShare = 32
	// keyShare converts the keys of a map, which the library compares, to read values.
	keyShare = 16
)

// Slots limits the filters of more than usualSteps that requests of one kind of callers parse at the same time.
type Slots chan struct{}

// Anonymous and Identified are the slots of callers without and with a token. So callers without a token cannot
// delay others.
var (
	Anonymous  = make(Slots, 1)
	Identified = &Shared{Slots: make(Slots, 2), turns: map[string]*turn{}}
)

// maxWait is the maximum time that a request waits for a slot.
const maxWait = 2 * time.Second

// ErrBusy means that no slot became free in time.
var ErrBusy = errors.New("other complex filters are being parsed: use fewer nested parentheses, or repeat the request later")

// limit is an exceeded limit. It is the only panic of this package, and ends an evaluation.
type limit string

// Error implements error.
func (l limit) Error() string { return string(l) }

// ErrReads means that the evaluation of a filter reads too many values.
const ErrReads = limit("the filter reads too many values: use fewer conditions, or fewer any and all expressions")

// Filter is a parsed filter expression. It is not safe for concurrent use, because it counts what it reads.
type Filter struct {
	root   grammar.Expression
	eval   *bexpr.Evaluator
	regexp int // instructions of the largest regular expression
	read   int
}

// ParseFilter parses a filter expression. It is for the state machine and for stored text. For text of a request use
// Slots.Parse.
func ParseFilter(text string) (*Filter, error) {
	if len(text) > MaxFilter {
		return nil, fmt.Errorf("the filter has %d bytes: the limit is %d", len(text), MaxFilter)
	}
	f, err := parseFilter(text, maxSteps)
	if tooComplex(err) {
		return nil, errors.New("the filter is too complex: use fewer conditions and fewer nested parentheses")
	}
	return f, err
}

// Parse is ParseFilter for the text of a request. One of more than usualSteps waits for a slot.
func (s Slots) Parse(text string) (*Filter, error) {
	if f, done, err := parseUsual(text); done {
		return f, err
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	return s.parse(text, timer)
}

// parseUsual parses a filter of at most usualSteps. done is false for a more complex one.
func parseUsual(text string) (f *Filter, done bool, err error) {
	if len(text) > MaxFilter {
		return nil, false, nil
	}
	f, err = parseFilter(text, usualSteps)
	return f, !tooComplex(err), err
}

// parse parses a filter when a slot is free.
func (s Slots) parse(text string, timer *time.Timer) (*Filter, error) {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		return ParseFilter(text)
	case <-timer.C:
		return nil, ErrBusy
	}
}

// tooComplex reports whether the parser exceeded its steps. The library has no exported error for it.
func tooComplex(err error) bool {
	return err != nil && strings.Contains(err.Error(), "max number of expressions parsed")
}

func parseFilter(text string, steps uint64) (f *Filter, err error) {
	defer recovered(&err)
	tree, err := grammar.Parse("", []byte(text), grammar.MaxExpressions(steps))
	if err != nil {
		return nil, err
	}
	root, ok := tree.(grammar.Expression)
	if !ok {
		return nil, fmt.Errorf("the filter is a %T, not an expression", tree)
	}
	f = &Filter{root: root}
	if err := f.check(root, 0); err != nil {
		return nil, err
	}
	f.eval, err = bexpr.CreateEvaluator(text, bexpr.WithMaxExpressions(steps), bexpr.WithHookFn(f.count))
	return f, err
}

// recovered converts a panic of the library to an error.
func recovered(err *error) {
	switch p := recover().(type) {
	case nil:
	case limit:
		*err = p
	case *reflect.ValueError:
		*err = errors.New("the filter cannot be evaluated: an operator does not apply to a value that is not set; " +
			"check it with is not nil before")
	default:
		*err = fmt.Errorf("the filter cannot be evaluated: %v", p)
	}
}

// check checks the collections and the regular expressions.
func (f *Filter) check(e grammar.Expression, nested int) error {
	switch e := e.(type) {
	case *grammar.UnaryExpression:
		return f.check(e.Operand, nested)
	case *grammar.BinaryExpression:
		return errors.Join(f.check(e.Left, nested), f.check(e.Right, nested))
	case *grammar.CollectionExpression:
		if nested == maxNested {
			return fmt.Errorf("more than %d any and all expressions contain each other", maxNested)
		}
		return f.check(e.Inner, nested+1)
	case *grammar.MatchExpression:
		if e.Operator != grammar.MatchMatches && e.Operator != grammar.MatchNotMatches || e.Value == nil {
			return nil
		}
		_, size, err := parseRegexp(e.Value.Raw)
		f.regexp = max(f.regexp, size)
		return err
	}
	return nil
}

// count counts a value that the evaluation reads. It ends the evaluation with a panic at the limit, since
// the library has no other way.
func (f *Filter) count(v reflect.Value) reflect.Value {
	f.read++
	switch v.Kind() {
	case reflect.Map:
		f.read += v.Len() / keyShare
	case reflect.String, reflect.Slice:
		f.read += v.Len() * f.regexp / matchShare
	}
	if f.read > maxRead {
		panic(ErrReads)
	}
	return v
}

// Match reports whether an object matches.
func (f *Filter) Match(object any) (ok bool, err error) {
	defer recovered(&err)
	f.read = max(0, f.read-freeRead)
	return f.eval.Evaluate(object)
}

// Renew gives the filter the budget of a new one, for the next list of the same request.
func (f *Filter) Renew() { f.read = 0 }

// Root returns the syntax tree.
func (f *Filter) Root() grammar.Expression { return f.root }
