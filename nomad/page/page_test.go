package page

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func TestTokensReadAsTheyAreWritten(t *testing.T) {
	c := Cursor{Index: 7, Namespace: "apps", ID: "a.b/c"}
	for name, x := range map[string]struct {
		order Order
		token string
		back  Cursor
	}{
		"id":           {ByID, "a.b/c", Cursor{ID: "a.b/c"}},
		"namespace":    {ByNamespace, "apps.a.b/c", Cursor{Namespace: "apps", ID: "a.b/c"}},
		"creation":     {ByCreation, "7.a.b/c", Cursor{Index: 7, ID: "a.b/c"}},
		"modification": {ByModification, "7.apps.a.b/c", c},
	} {
		token := x.order.write(c)
		back, err := x.order.read(token)
		if token != x.token || back != x.back || err != nil {
			t.Errorf("%s: %q reads as %+v, %v, want %q and %+v", name, token, back, err, x.token, x.back)
		}
	}
}

// Tokens of Nomad are a number: the page begins with the first object that has it, in either direction.
func TestNumberAsToken(t *testing.T) {
	all := []Cursor{{1, "a", "x"}, {3, "a", "y"}, {3, "b", "x"}, {3, "b", "z"}, {9, "a", "z"}}
	for reverse, want := range map[bool][]Cursor{false: {all[1], all[2]}, true: {all[3], all[2]}} {
		q := &message.QueryOptions{PerPage: 2, NextToken: "3", Reverse: reverse}
		got, next, err := List[Cursor]{Opts: q, Order: ByModification, At: func(c Cursor) Cursor { return c }}.Page(slices.Values(all))
		if err != nil || !slices.Equal(got, want) || next == "" {
			t.Errorf("reverse %t: %v, %q, %v; want %v", reverse, got, next, err, want)
		}
	}
}

func TestPagesCoverTheList(t *testing.T) {
	var all []*nomad.Evaluation
	for _, e := range []struct {
		id    string
		index uint64
	}{{"a", 9}, {"b", 3}, {"c", 3}, {"d", 12}, {"e", 1}} {
		all = append(all, &nomad.Evaluation{ID: e.id, CreateIndex: e.index})
	}
	for name, c := range map[string]struct {
		order   Order
		reverse bool
		want    string
	}{
		"by ID":                {ByID, false, "abcde"},
		"by ID, backwards":     {ByID, true, "edcba"},
		"by index":             {ByCreation, false, "ebcad"},
		"by index, backwards":  {ByCreation, true, "dacbe"},
		"by change":            {ByModification, false, "ebcad"},
		"by change, backwards": {ByModification, true, "dacbe"},
	} {
		for per := int32(1); per < 7; per++ {
			got, token := "", ""
			for range all {
				q := &message.QueryOptions{PerPage: per, NextToken: token, Reverse: c.reverse}
				page, next, err := List[*nomad.Evaluation]{Opts: q, Order: c.order,
					At: func(e *nomad.Evaluation) Cursor { return c.order.At(e.CreateIndex, e.ID) }}.Page(slices.Values(all))
				if err != nil || len(page) > int(per) {
					t.Fatalf("%s: page of %d: %v", name, len(page), err)
				}
				for _, e := range page {
					got += e.ID
				}
				if token = next; token == "" {
					break
				}
			}
			if got != c.want || token != "" {
				t.Errorf("%s in pages of %d: %q and token %q, want %q", name, per, got, token, c.want)
			}
		}
	}
}

func TestPagesOfStoredOrders(t *testing.T) {
	inOrder := []*nomad.Evaluation{{ID: "e", CreateIndex: 1}, {ID: "b", CreateIndex: 3}, {ID: "c", CreateIndex: 3}, {ID: "a", CreateIndex: 9},
		{ID: "d", CreateIndex: 12}}
	inReverse := slices.Clone(inOrder)
	slices.Reverse(inReverse)
	for _, c := range []struct {
		stored  []*nomad.Evaluation
		reverse bool
		token   string
		want    string
		next    string
		read    int // the objects that the page reads
	}{
		{inOrder, false, "", "eb", "3.c", 3},
		{inOrder, false, "3.c", "ca", "12.d", 5},
		{inOrder, false, "12.d", "d", "", 5},
		{inOrder, false, "13.a", "", "", 5},
		{inReverse, true, "", "da", "3.c", 3},
		{inReverse, true, "3.c", "cb", "1.e", 5},
	} {
		read := 0
		counted := func(yield func(*nomad.Evaluation) bool) {
			for _, e := range c.stored {
				if read++; !yield(e) {
					return
				}
			}
		}
		order := ByCreation.Stored()
		page, next, err := List[*nomad.Evaluation]{Opts: &message.QueryOptions{PerPage: 2, NextToken: c.token, Reverse: c.reverse}, Order: order,
			At: func(e *nomad.Evaluation) Cursor { return order.At(e.CreateIndex, e.ID) }}.Page(counted)
		got := ""
		for _, e := range page {
			got += e.ID
		}
		if got != c.want || next != c.next || err != nil || read != c.read {
			t.Errorf("page at %q, reverse %v: %q, token %q, %v, %d objects read, want %q, %q, %d", c.token, c.reverse, got, next, err, read, c.want,
				c.next, c.read)
		}
	}
}
