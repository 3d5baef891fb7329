package endpoint

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-bexpr"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// cursor is the position of an object in a list. The order of the list determines which
// fields are used.
type cursor struct {
	index     uint64
	namespace string
	id        string
}

func (c cursor) compare(d cursor) int {
	return cmp.Or(cmp.Compare(c.index, d.index), strings.Compare(c.namespace, d.namespace), strings.Compare(c.id, d.id))
}

// order describes how a list is sorted and how its page tokens are encoded.
type order struct {
	sort  bool // state does not return the objects in this order
	write func(cursor) string
	read  func(string) (cursor, error)
}

// Orders of lists. The formats of their page tokens are those of Nomad 2.0.
var (
	byID = order{
		write: func(c cursor) string { return c.id },
		read:  func(s string) (cursor, error) { return cursor{id: s}, nil },
	}
	byNamespace = order{
		write: func(c cursor) string { return c.namespace + "." + c.id },
		read: func(s string) (cursor, error) {
			ns, id, _ := strings.Cut(s, ".")
			return cursor{namespace: ns, id: id}, nil
		},
	}
	byCreation = order{
		sort:  true,
		write: func(c cursor) string { return strconv.FormatUint(c.index, 10) + "." + c.id },
		read: func(s string) (cursor, error) {
			num, id, _ := strings.Cut(s, ".")
			n, err := strconv.ParseUint(num, 10, 64)
			return cursor{index: n, id: id}, err
		},
	}
	byModification = order{
		sort:  true,
		write: func(c cursor) string { return strconv.FormatUint(c.index, 10) },
		read: func(s string) (cursor, error) {
			n, err := strconv.ParseUint(s, 10, 64)
			return cursor{index: n}, err
		},
	}
)

// creationOrder returns byCreation, or byID with a prefix, because state iterates prefixes by
// ID.
func creationOrder(prefix string) order {
	if prefix != "" {
		return byID
	}
	return byCreation
}

// list describes a request for one page of objects of type T.
type list[T any] struct {
	opts  *nomad.QueryOptions
	order order
	at    func(T) cursor
	// filtered returns the value that the filter expression evaluates. Nil means the object
	// itself.
	filtered func(T) any
	// keep excludes objects before the filter. Nil keeps all.
	keep func(T) bool
}

// page returns the objects of one page, and the token of the next page or "".
func (l list[T]) page(all iter.Seq[T]) ([]T, string, error) {
	match, err := l.matcher()
	if err != nil {
		return nil, "", err
	}
	objects, err := l.from(all)
	if err != nil {
		return nil, "", err
	}
	var out []T
	for _, o := range objects {
		if l.keep != nil && !l.keep(o) {
			continue
		}
		ok, err := match(o)
		if err != nil {
			return nil, "", err
		}
		if !ok {
			continue
		}
		if l.opts.PerPage > 0 && len(out) == int(l.opts.PerPage) {
			return out, l.order.write(l.at(o)), nil
		}
		out = append(out, o)
	}
	return out, "", nil
}

// from returns the objects in order, starting at the page token.
func (l list[T]) from(all iter.Seq[T]) ([]T, error) {
	objects := slices.Collect(all)
	if l.order.sort {
		slices.SortStableFunc(objects, func(a, b T) int { return l.at(a).compare(l.at(b)) })
	}
	if l.opts.Reverse {
		slices.Reverse(objects)
	}
	if l.opts.NextToken == "" {
		return objects, nil
	}
	start, err := l.order.read(l.opts.NextToken)
	if err != nil {
		return nil, nomad.Errorf(400, "failed to create result paginator: invalid next token %q", l.opts.NextToken)
	}
	first := slices.IndexFunc(objects, func(o T) bool {
		c := l.at(o).compare(start)
		return c == 0 || (c > 0) != l.opts.Reverse
	})
	if first < 0 {
		return nil, nil
	}
	return objects[first:], nil
}

// matcher compiles the filter expression.
func (l list[T]) matcher() (func(T) (bool, error), error) {
	if l.opts.Filter == "" {
		return func(T) (bool, error) { return true, nil }, nil
	}
	eval, err := bexpr.CreateEvaluator(l.opts.Filter)
	if err != nil {
		return nil, nomad.Errorf(400, "failed to read filter expression: %v", err)
	}
	return func(o T) (bool, error) {
		var seen any = o
		if l.filtered != nil {
			seen = l.filtered(o)
		}
		ok, err := eval.Evaluate(seen)
		if err != nil {
			return false, nomad.Errorf(400, "failed to read filter expression: %v", err)
		}
		return ok, nil
	}, nil
}

// each converts the objects of a page. The result is never nil, so that it is encoded as []
// and not null.
func each[T, U any](objects []T, f func(T) U) []U {
	out := make([]U, 0, len(objects))
	for _, o := range objects {
		out = append(out, f(o))
	}
	return out
}

// only returns the objects for which pass is true.
func only[T any](all iter.Seq[T], pass func(T) bool) iter.Seq[T] {
	return func(yield func(T) bool) {
		for o := range all {
			if pass(o) && !yield(o) {
				return
			}
		}
	}
}

// within returns the objects in the namespace of a list request. It fails if the namespace
// does not exist. For the namespace "*" it keeps the objects in namespaces that may allows.
// For one namespace the caller has already checked access.
func within[T any](snap *state.Snapshot, name string, all iter.Seq[T], of func(T) string, may func(namespace string) bool) (iter.Seq[T], error) {
	ns := namespaceOf(name)
	if ns == nomad.AllNamespacesSentinel {
		return only(all, func(o T) bool { return may(of(o)) }), nil
	}
	if err := knownNamespace(snap, ns); err != nil {
		return nil, err
	}
	return only(all, func(o T) bool { return of(o) == ns }), nil
}
