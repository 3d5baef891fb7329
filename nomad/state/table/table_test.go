package table_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/nomad/state/table"
)

type city struct {
	country, name string
	size          uint64
}

var cities = &table.Table[city]{
	Name:   "cities",
	Events: true,
	ID:     func(c *city) table.Key { return table.KeyOf(c.country, c.name) },
	Indexes: []table.Index[city]{{Name: "size", Key: func(c *city) table.Key {
		if c.size == 0 {
			return nil
		}
		return table.KeyOf().Number(c.size)
	}}, {Name: "letter", Keys: func(c *city) (out []table.Key) {
		for _, letter := range slices.Compact(slices.Sorted(slices.Values(strings.Split(c.name, "")))) {
			out = append(out, table.KeyOf(letter))
		}
		return out
	}}},
}

func newDB() *table.DB {
	return table.NewDB(&memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		cities.Name: cities.Schema(), table.Indexes.Name: table.Indexes.Schema(),
	}})
}

// put stores cities as one log entry.
func put(t *testing.T, d *table.DB, index uint64, all ...*city) {
	t.Helper()
	if err := d.Write(index, func(tx *table.Txn) error {
		for _, c := range all {
			cities.Put(tx, c)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func names(seq iter.Seq[*city]) string {
	var out []string
	for c := range seq {
		out = append(out, c.name)
	}
	return strings.Join(out, " ")
}

func TestReads(t *testing.T) {
	d := newDB()
	put(t, d, 7, &city{"de", "bonn", 3}, &city{"de", "berlin", 300}, &city{"dep", "x", 0}, &city{"at", "wien", 200})
	tx, index := d.View()
	if index != 7 || table.LastIndex(tx, cities.Name) != 7 || table.LastIndex(tx, "none") != 0 {
		t.Errorf("View() at %d, table at %d", index, table.LastIndex(tx, cities.Name))
	}
	for what, c := range map[string]struct{ got, want string }{
		"all":      {names(cities.All(tx, nil)), "wien berlin bonn x"},
		"by":       {names(cities.By(tx, nil, table.Primary, table.KeyOf("de"))), "berlin bonn"},
		"prefixed": {names(cities.Prefixed(tx, nil, table.Primary, table.PrefixOf("de"))), "berlin bonn x"},
		"reversed": {names(cities.Reversed(tx, nil, table.Primary, table.KeyOf("de"))), "bonn berlin"},
		"several":  {names(cities.By(tx, nil, "letter", table.KeyOf("n"))), "wien berlin bonn"},
		"from":     {names(cities.From(tx, "size", table.KeyOf().Number(4))), "wien berlin"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", what, c.got, c.want)
		}
	}
	if cities.Get(tx, nil, table.KeyOf("de", "b")) != nil || cities.Get(tx, nil, table.KeyOf("de", "bonn")) == nil {
		t.Error("Get() does not compare complete keys")
	}
}

// TestKeys checks that a row is found by each of its keys, and no longer by those that it lost.
func TestKeys(t *testing.T) {
	d := newDB()
	with := func(letter string) string {
		tx, _ := d.View()
		return names(cities.By(tx, nil, "letter", table.KeyOf(letter)))
	}
	put(t, d, 7, &city{"a", "xy", 1}, &city{"b", "yz", 1}, &city{"c", "", 1})
	if got := []string{with("x"), with("y"), with("z")}; !slices.Equal(got, []string{"xy", "xy yz", "yz"}) {
		t.Errorf("cities by letter: %q", got)
	}
	tx, _ := d.View()
	ws := memdb.NewWatchSet()
	cities.By(tx, ws, "letter", table.KeyOf("z"))
	if err := d.Write(8, func(tx *table.Txn) error {
		cities.Delete(tx, cities.Get(tx, nil, table.KeyOf("b", "yz")))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := []string{with("x"), with("y"), with("z")}; !slices.Equal(got, []string{"xy", "xy", ""}) {
		t.Errorf("cities by letter: %q", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := ws.WatchCtx(ctx); err != nil {
		t.Errorf("the watch of a key did not fire: %v", err)
	}
}

// TestFailedWrite checks that a failed entry leaves no row, no index and no fired watch.
func TestFailedWrite(t *testing.T) {
	d := newDB()
	put(t, d, 1, &city{"de", "bonn", 3})
	before, _ := d.View()
	ws := memdb.NewWatchSet()
	cities.Get(before, ws, table.KeyOf("de", "bonn"))
	fails := errors.New("fails")
	if err := d.Write(2, func(tx *table.Txn) error {
		cities.Delete(tx, cities.Get(tx, nil, table.KeyOf("de", "bonn")))
		return fails
	}); !errors.Is(err, fails) {
		t.Fatalf("Write() = %v", err)
	}
	if d.WriteBatch(3, func() bool {
		put(t, d, 2, &city{"de", "ulm", 1})
		return false
	}) {
		t.Error("WriteBatch() = true after a failed entry")
	}
	tx, index := d.View()
	if got := names(cities.All(tx, nil)); got != "bonn" || index != 1 || table.LastIndex(tx, cities.Name) != 1 {
		t.Errorf("rows %q at %d", got, index)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ws.WatchCtx(ctx) == nil {
		t.Error("the watch fired")
	}
}

// TestWriteBatch checks that an entry sees earlier entries, readers see none of them before the
// end, and each entry has its own list of written rows.
func TestWriteBatch(t *testing.T) {
	d := newDB()
	var written []int
	if !d.WriteBatch(3, func() bool {
		for i := range uint64(3) {
			if err := d.Write(i+1, func(tx *table.Txn) error {
				if got := len(slices.Collect(cities.All(tx, nil))); got != int(i) {
					return fmt.Errorf("entry %d sees %d rows", i, got)
				}
				cities.Put(tx, &city{"de", fmt.Sprint(i), 1})
				written = append(written, len(tx.Written))
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
		tx, index := d.View()
		if got := names(cities.All(tx, nil)); got != "" || index != 0 {
			t.Errorf("readers see %q at %d before the end", got, index)
		}
		return true
	}) {
		t.Error("WriteBatch() = false")
	}
	tx, index := d.View()
	if got := names(cities.All(tx, nil)); got != "0 1 2" || index != 3 || table.LastIndex(tx, cities.Name) != 3 {
		t.Errorf("rows %q at %d", got, index)
	}
	if !slices.Equal(written, []int{1, 1, 1}) {
		t.Errorf("written rows per entry: %v", written)
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDB()
		done := make(chan error, 2)
		go func() { done <- d.Wait(t.Context(), 2) }()
		synctest.Wait()
		d.Advance(1)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("Wait(2) returned at index 1")
		}
		d.Advance(2)
		if err := <-done; err != nil {
			t.Errorf("Wait(2) = %v", err)
		}
		go func() { done <- d.Wait(t.Context(), 9) }()
		synctest.Wait()
		d.Abandon()
		if err := <-done; !errors.Is(err, table.ErrAbandoned) {
			t.Errorf("Wait(9) = %v after Abandon", err)
		}
	})
}
