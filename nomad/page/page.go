// Package page returns one page of a list. It has the objects that match a filter expression, in
// the order of the list, and begins at a page token. It never checks rights: the caller excludes
// objects with List.Keep.
package page

import (
	"cmp"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Cursor is the position of an object in a list. The order of the list determines which
// fields are used.
type Cursor struct {
	Index     uint64
	Namespace string
	ID        string
}

// Compare returns the order of two positions, as cmp.Compare.
func (c Cursor) Compare(d Cursor) int {
	return cmp.Or(cmp.Compare(c.Index, d.Index), strings.Compare(c.Namespace, d.Namespace), strings.Compare(c.ID, d.ID))
}

// Order describes how a list is sorted and how its page tokens are encoded.
type Order struct {
	numbered bool // positions have an index
	sort     bool // state does not return the objects in this order
	reversed bool // state returns the objects of a reverse list in reverse
	write    func(Cursor) string
	read     func(string) (Cursor, error)
}

// At returns the position of an object with the index and the ID.
func (o Order) At(index uint64, id string) Cursor {
	if !o.numbered {
		return Cursor{ID: id}
	}
	return Cursor{Index: index, ID: id}
}

// Sorted returns the order for objects that state does not return in this order.
func (o Order) Sorted() Order {
	o.sort = true
	return o
}

// Stored returns the order for objects that state returns in this order, and in reverse for a reverse
// list. A page then reads no objects behind it.
func (o Order) Stored() Order {
	o.sort, o.reversed = false, true
	return o
}

// Orders of lists. The formats of their page tokens are those of Nomad 2.0.
var (
	ByID = Order{
		write: func(c Cursor) string { return c.ID },
		read:  func(s string) (Cursor, error) { return Cursor{ID: s}, nil },
	}
	ByNamespace = Order{
		write: func(c Cursor) string { return c.Namespace + "." + c.ID },
		read: func(s string) (Cursor, error) {
			ns, id, _ := strings.Cut(s, ".")
			return Cursor{Namespace: ns, ID: id}, nil
		},
	}
	ByCreation = Order{
		numbered: true,
		sort:     true,
		write:    func(c Cursor) string { return strconv.FormatUint(c.Index, 10) + "." + c.ID },
		read: func(s string) (Cursor, error) {
			num, id, _ := strings.Cut(s, ".")
			n, err := strconv.ParseUint(num, 10, 64)
			return Cursor{Index: n, ID: id}, err
		},
	}
	ByModification = Order{
		numbered: true,
		sort:     true,
		write: func(c Cursor) string {
			return strconv.FormatUint(c.Index, 10) + "." + c.Namespace + "." + c.ID // several objects can have one index
		},
		read: func(s string) (Cursor, error) { // also a number only, as in Nomad
			num, rest, _ := strings.Cut(s, ".")
			namespace, id, _ := strings.Cut(rest, ".")
			n, err := strconv.ParseUint(num, 10, 64)
			return Cursor{Index: n, Namespace: namespace, ID: id}, err
		},
	}
)

// CreationOrder returns ByCreation, or ByID with a prefix, because state iterates prefixes by
// ID.
func CreationOrder(prefix string) Order {
	if prefix != "" {
		return ByID
	}
	return ByCreation
}

// List describes a request for one page of objects of type T.
type List[T any] struct {
	Opts  *message.QueryOptions
	Order Order
	At    func(T) Cursor // returns the position of an object
	// Filtered returns the value that the filter expression evaluates. Nil means the object
	// itself.
	Filtered func(T) any // fields with the tag bexpr:"-" are hidden
	// Reduced reports whether Filtered omits fields because the caller may not read the object. A
	// filter that uses such a field does not match the object. If the filter can be evaluated on no object, the
	// list is an error. Nil means no object.
	Reduced func(T) bool
	// Keep excludes objects before the filter. Nil keeps all.
	Keep func(T) bool
	// Applied means that a log entry is applied. Its filter does not wait for those of requests.
	Applied bool
}

// Page returns the objects of one page, and the token of the next page or "".
func (l List[T]) Page(all iter.Seq[T]) ([]T, string, error) {
	match, err := l.matcher()
	if err != nil {
		return nil, "", err
	}
	objects, err := l.from(l.ordered(all))
	if err != nil {
		return nil, "", err
	}
	var out []T
	var fault error // of the first reduced object
	evaluated := false
	for o := range objects {
		if l.Keep != nil && !l.Keep(o) {
			continue
		}
		ok, err := match(o)
		switch {
		case err == nil:
			evaluated = true
		case l.Reduced == nil || !l.Reduced(o) || errors.Is(err, untrusted.ErrReads):
			return nil, "", unreadable(err)
		case fault == nil:
			fault = err
		}
		if !ok || err != nil {
			continue
		}
		if l.Opts.PerPage > 0 && len(out) == int(l.Opts.PerPage) {
			return out, l.Order.write(l.At(o)), nil
		}
		out = append(out, o)
	}
	if fault != nil && !evaluated {
		return nil, "", unreadable(fault)
	}
	return out, "", nil
}

// unreadable is the error for a filter that cannot be parsed or evaluated.
func unreadable(err error) error {
	return apierror.Errorf(400, "failed to read filter expression: %v", err)
}

// ordered returns the objects in the order of the list.
func (l List[T]) ordered(all iter.Seq[T]) iter.Seq[T] {
	reverse := l.Opts.Reverse && !l.Order.reversed
	if !l.Order.sort && !reverse {
		return all
	}
	objects := slices.Collect(all)
	if l.Order.sort {
		slices.SortStableFunc(objects, func(a, b T) int { return l.At(a).Compare(l.At(b)) })
	}
	if reverse {
		slices.Reverse(objects)
	}
	return slices.Values(objects)
}

// from returns the objects from the page token on.
func (l List[T]) from(objects iter.Seq[T]) (iter.Seq[T], error) {
	if l.Opts.NextToken == "" {
		return objects, nil
	}
	start, err := l.Order.read(l.Opts.NextToken)
	if err != nil {
		return nil, apierror.Errorf(400, "failed to create result paginator: invalid next token %q", l.Opts.NextToken)
	}
	reached := func(o T) bool {
		at := l.At(o)
		c := at.Compare(start)
		if l.Order.numbered && start.Namespace == "" && start.ID == "" { // the first object with the index
			c = cmp.Compare(at.Index, start.Index)
		}
		return c == 0 || (c > 0) != l.Opts.Reverse
	}
	return func(yield func(T) bool) {
		begun := false
		for o := range objects {
			if begun = begun || reached(o); begun && !yield(o) {
				return
			}
		}
	}, nil
}

// matcher compiles the filter expression.
func (l List[T]) matcher() (func(T) (bool, error), error) {
	if l.Opts.Filter == "" {
		return func(T) (bool, error) { return true, nil }, nil
	}
	filter, err := l.parse()
	switch {
	case errors.Is(err, untrusted.ErrBusy):
		return nil, apierror.Errorf(http.StatusTooManyRequests, "%v", err)
	case err != nil:
		return nil, unreadable(err)
	}
	return func(o T) (bool, error) {
		var seen any = o
		if l.Filtered != nil {
			seen = l.Filtered(o)
		}
		return filter.Match(seen)
	}, nil
}

// parse returns the parsed filter expression. A blocking query parses it once, and has a new budget each time.
func (l List[T]) parse() (*untrusted.Filter, error) {
	if kept, ok := l.Opts.Parsed().(*parsed); ok && kept.text == l.Opts.Filter {
		kept.filter.Renew()
		return kept.filter, nil
	}
	filter, err := l.parseNew()
	if err != nil {
		return nil, err
	}
	l.Opts.KeepParsed(&parsed{l.Opts.Filter, filter})
	return filter, nil
}

// parsed is a filter with its text.
type parsed struct {
	text   string
	filter *untrusted.Filter
}

func (l List[T]) parseNew() (*untrusted.Filter, error) {
	switch {
	case l.Applied:
		return untrusted.ParseFilter(l.Opts.Filter)
	case l.Opts.AuthToken == "":
		return untrusted.Anonymous.Parse(l.Opts.Filter)
	}
	return untrusted.Identified.Parse(l.Opts.AuthToken, l.Opts.Filter)
}

// Each converts the objects of a page. The result is never nil, so that it is encoded as []
// and not null.
func Each[T, U any](objects []T, f func(T) U) []U {
	out := make([]U, 0, len(objects))
	for _, o := range objects {
		out = append(out, f(o))
	}
	return out
}

// Only returns the objects for which pass is true.
func Only[T any](all iter.Seq[T], pass func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for o := range all {
			if pass(o) && !yield(o) {
				return
			}
		}
	}
}
