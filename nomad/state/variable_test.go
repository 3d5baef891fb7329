package state_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// vault is a store with helpers for variable writes.
type vault struct {
	*testing.T
	s     *state.Store
	index uint64
}

func newVault(t *testing.T) *vault { return &vault{t, state.New(slog.New(slog.DiscardHandler)), 10} }

// do applies an operation to the variable "p" and returns the response.
func (v *vault) do(op variable.Op, data, lock string, cas uint64) *message.VarApplyStateResponse {
	v.Helper()
	v.index++
	e := &variable.Encrypted{Ciphertext: variable.Ciphertext{Data: []byte(data), KeyID: "k" + data}}
	e.Namespace, e.Path, e.ModifyIndex, e.CreateTime, e.ModifyTime = "default", "p", cas, int64(v.index), int64(v.index)
	if lock != "" {
		e.Lock = &variable.Lock{ID: lock}
	}
	out, _, err := v.s.ApplyVariable(v.index, &message.VarApplyStateRequest{Op: op, Var: e, KeepItems: data == ""})
	if err != nil {
		v.Fatal(err)
	}
	return out
}

// is compares the variable "p": its data, its lock and its indexes.
func (v *vault) is(want string) {
	v.Helper()
	got := "none"
	if p := v.s.Snapshot().Variable(nil, "default", "p"); p != nil {
		got = fmt.Sprintf("%s %q %d %d", p.Data, p.LockID(), p.CreateIndex, p.ModifyIndex)
		if p.CreateTime != int64(p.CreateIndex) || p.ModifyTime != int64(p.ModifyIndex) {
			v.Errorf("made at time %d, changed at %d", p.CreateTime, p.ModifyTime)
		}
	}
	if got != want {
		v.Errorf("the variable is %s, want %s", got, want)
	}
}

func TestVariableOperations(t *testing.T) {
	ok, conflict := variable.ResultOk, variable.ResultConflict
	for _, c := range []struct {
		name  string
		steps func(v *vault) *message.VarApplyStateResponse
		want  variable.Result
		is    string
	}{
		{"set", func(v *vault) *message.VarApplyStateResponse { return v.do("set", "a", "", 0) }, ok, `a "" 11 11`},
		{"set again", func(v *vault) *message.VarApplyStateResponse { v.do("set", "a", "", 0); return v.do("set", "b", "", 0) }, ok,
			`b "" 11 12`},
		{"cas of none", func(v *vault) *message.VarApplyStateResponse { return v.do("cas", "a", "", 0) }, ok, `a "" 11 11`},
		{"cas of none, expected", func(v *vault) *message.VarApplyStateResponse { return v.do("cas", "a", "", 7) }, conflict, "none"},
		{"cas", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("cas", "b", "", 11)
		}, ok, `b "" 11 12`},
		{"cas too late", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("cas", "b", "", 10)
		}, conflict, `a "" 11 11`},
		{"cas, none expected", func(v *vault) *message.VarApplyStateResponse { v.do("set", "a", "", 0); return v.do("cas", "b", "", 0) },
			conflict, `a "" 11 11`},
		{"delete", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("delete", "", "", 0)
		}, ok, "none"},
		{"delete none", func(v *vault) *message.VarApplyStateResponse { return v.do("delete", "", "", 0) }, ok, "none"},
		{"delete-cas", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("delete-cas", "", "", 11)
		}, ok, "none"},
		{"delete-cas too late", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("delete-cas", "", "", 9)
		}, conflict, `a "" 11 11`},
		{"acquire", func(v *vault) *message.VarApplyStateResponse { return v.do("lock-acquire", "a", "l", 0) }, ok, `a "l" 11 11`},
		{"acquire keeps items", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("lock-acquire", "", "l", 0)
		}, ok, `a "l" 11 12`},
		{"acquire again", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("lock-acquire", "b", "l", 0)
		}, ok, `b "l" 11 12`},
		{"acquire of another's", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("lock-acquire", "b", "m", 0)
		}, conflict, `a "l" 11 11`},
		{"set while held", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("set", "b", "", 0)
		}, conflict, `a "l" 11 11`},
		{"set by another", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("set", "b", "m", 0)
		}, conflict, `a "l" 11 11`},
		{"set by the holder", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("set", "b", "l", 0)
		}, ok, `b "l" 11 12`},
		{"cas while held", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("cas", "b", "", 11)
		}, conflict, `a "l" 11 11`},
		{"delete while held", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("delete", "", "", 0)
		}, conflict, `a "l" 11 11`},
		{"delete by the holder", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("delete", "", "l", 0)
		}, ok, "none"},
		{"set by who held it", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("set", "b", "l", 0)
		}, conflict, `a "" 11 11`},
		{"release", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("lock-release", "", "l", 0)
		}, ok, `a "" 11 12`},
		{"release of another's", func(v *vault) *message.VarApplyStateResponse {
			v.do("lock-acquire", "a", "l", 0)
			return v.do("lock-release", "", "m", 0)
		}, conflict, `a "l" 11 11`},
		{"release of what is free", func(v *vault) *message.VarApplyStateResponse {
			v.do("set", "a", "", 0)
			return v.do("lock-release", "", "m", 0)
		}, conflict, `a "" 11 11`},
		{"release of none", func(v *vault) *message.VarApplyStateResponse { return v.do("lock-release", "", "m", 0) }, conflict, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVault(t)
			out := c.steps(v)
			v.is(c.is)
			switch {
			case out.Result != c.want:
				t.Errorf("the answer is %v, want %s", out, c.want)
			case out.Result == conflict && (out.Conflict == nil || out.Conflict.Path != "p"):
				t.Errorf("conflict = %+v", out.Conflict)
			case out.Result == ok && !strings.HasPrefix(c.name, "delete") && (out.Written == nil || out.Written.ModifyIndex != v.index):
				t.Errorf("written = %+v", out.Written)
			}
		})
	}
}

func TestVariablesAreCountedAndFound(t *testing.T) {
	s := state.New(slog.New(slog.DiscardHandler))
	if _, err := s.UpsertNamespaces(5, &message.NamespaceUpsertRequest{Namespaces: []*nomad.Namespace{{Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	index := uint64(10)
	put := func(op variable.Op, namespace, path, data, key string) {
		t.Helper()
		index++
		e := &variable.Encrypted{Ciphertext: variable.Ciphertext{Data: []byte(data), KeyID: key}}
		e.Namespace, e.Path = namespace, path
		if _, _, err := s.ApplyVariable(index, &message.VarApplyStateRequest{Op: op, Var: e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"a/b", "a", "a/c", "ab", "b"} {
		put(variable.OpSet, "default", path, "12345", "k1")
	}
	put(variable.OpSet, "other", "a/b", "123", "k2")
	put(variable.OpSet, "default", "b", "1", "k2")
	var found []string
	for v := range s.Snapshot().VariablesIn(nil, "default", "a/") {
		found = append(found, v.Path)
	}
	if !slices.Equal(found, []string{"a/b", "a/c"}) {
		t.Errorf("below a/ are %v", found)
	}
	found = nil
	for v := range s.Snapshot().VariablesByKey(nil, "k2") {
		found = append(found, v.Namespace+" "+v.Path)
	}
	if !slices.Equal(found, []string{"default b", "other a/b"}) || !s.Snapshot().RootKeyInUse("k2") || s.Snapshot().RootKeyInUse("k") {
		t.Errorf("k2 encrypted %v", found)
	}
	if q := s.Snapshot().VariablesQuota(nil, "default"); q == nil || q.Size != 21 || q.CreateIndex != 11 || q.ModifyIndex != 17 {
		t.Errorf("the variables take %+v, want 21 bytes", q)
	}
	if _, err := s.DeleteNamespaces(20, &message.NamespaceDeleteRequest{Namespaces: []string{"other"}}); err == nil ||
		!strings.Contains(err.Error(), `"a/b"`) {
		t.Errorf("a namespace with a variable is deleted: %v", err)
	}
	put(variable.OpDelete, "other", "a/b", "", "")
	put(variable.OpDelete, "default", "b", "", "")
	if s.Snapshot().RootKeyInUse("k2") {
		t.Error("a key is in use by deleted variables")
	}
	if q := s.Snapshot().VariablesQuota(nil, "other"); q.Size != 0 {
		t.Errorf("no variable takes %d bytes", q.Size)
	}
	if _, err := s.DeleteNamespaces(30, &message.NamespaceDeleteRequest{Namespaces: []string{"other"}}); err != nil {
		t.Error(err)
	}
	gone := &variable.Encrypted{Metadata: variable.Metadata{Namespace: "other", Path: "x"}}
	if _, _, err := s.ApplyVariable(40, &message.VarApplyStateRequest{Op: variable.OpSet, Var: gone}); err == nil {
		t.Error("a variable is written into a deleted namespace")
	}
	if _, _, err := s.ApplyVariable(41, &message.VarApplyStateRequest{Op: variable.OpSet}); err == nil {
		t.Error("no variable is written")
	}
	if _, _, err := s.ApplyVariable(42,
		&message.VarApplyStateRequest{Op: "eat",
			Var: &variable.Encrypted{Metadata: variable.Metadata{Namespace: "default", Path: "x"}}}); err == nil {
		t.Error("an unknown operation is done")
	}
}
