package codec_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/codec"
)

// A copy is equal and shares no mutable data.
func TestCopy(t *testing.T) {
	type leaf struct {
		Name string
		At   time.Time
	}
	type tree struct {
		Leaf    leaf
		Leaves  []leaf
		Next    *tree
		Names   []string
		Numbers [3]int
		Lists   map[string][]string
		Plain   map[string]int
		Trees   map[string]*tree
		Any     map[string]any
		Empty   []string
		Nil     []string
	}
	made := func() *tree {
		l := leaf{"l", time.Unix(7, 0).UTC()}
		return &tree{Leaf: l, Leaves: []leaf{l}, Next: &tree{Names: []string{"n"}}, Names: []string{"a", "b"}, Numbers: [3]int{1, 2, 3},
			Lists: map[string][]string{"k": {"v"}}, Plain: map[string]int{"one": 1}, Trees: map[string]*tree{"t": {Leaf: l}},
			Any: map[string]any{"list": []any{"x", map[string]any{"y": 1}}}, Empty: []string{}}
	}
	from := made()
	got := codec.Copy(from)
	if !reflect.DeepEqual(got, from) {
		t.Fatalf("Copy() = %+v, want %+v", got, from)
	}
	got.Leaf.Name, got.Leaves[0].Name, got.Next.Names[0], got.Names[0], got.Numbers[0] = "w", "w", "w", "w", 9
	got.Lists["k"][0], got.Plain["one"], got.Trees["t"].Leaf.Name = "w", 9, "w"
	list := got.Any["list"].([]any)
	list[0], list[1].(map[string]any)["y"] = "w", 9
	if !reflect.DeepEqual(from, made()) {
		t.Errorf("a write to the copy changed the original: %+v", from)
	}
	if codec.Copy((*tree)(nil)) != nil {
		t.Error("the copy of nothing is something")
	}
}
