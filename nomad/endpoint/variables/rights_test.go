package variables_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server/servertest"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// A caller that may write but not read a variable gets no information about its contents.
func TestVariables_WriteOnly(t *testing.T) {
	g := servertest.StartACL(t, nil)
	rules := func(capabilities string) string {
		return fmt.Sprintf(`namespace "default" { variables { path "a/*" { capabilities = [%s] } } }`, capabilities)
	}
	writes, lists, reads, destroys := g.TokenWith(rules(`"write"`)), g.TokenWith(rules(`"list"`)), g.TokenWith(rules(`"read"`)), g.TokenWith(rules(`"destroy"`))
	apply := func(secret string, op variable.Op, v *variable.Decrypted) (*message.VariablesApplyResponse, error) {
		var out message.VariablesApplyResponse
		err := g.Call(secret, "Variables.Apply", &message.VariablesApplyRequest{Op: op, Var: v}, &out)
		return &out, err
	}
	if _, err := apply(g.Root, variable.OpSet, servertest.Variable("a/b", "canary")); err != nil {
		t.Fatal(err)
	}
	late, err := apply(writes, variable.OpCAS, indexed(servertest.Variable("a/b", "x"), 1))
	if err != nil || late.Conflict == nil {
		t.Fatalf("a conflict without the right to read: %+v, %v", late.Conflict, err)
	}
	servertest.Equal(t, "result", late.Result, variable.ResultRedacted)
	servertest.Equal(t, "items of the conflict", len(late.Conflict.Items), 0)
	servertest.Equal(t, "path of the conflict", late.Conflict.Path, "a/b")
	if shown, err := apply(g.Root, variable.OpCAS, indexed(servertest.Variable("a/b", "x"), 1)); err != nil ||
		shown.Result != variable.ResultConflict || shown.Conflict.Items["k"] != "canary" {
		t.Errorf("a conflict with the right to read: %v, %v", shown.Result, err)
	}
	held, err := apply(writes, variable.OpLockAcquire, servertest.Variable("a/b", ""))
	if err != nil || held.Output == nil || held.Output.Items != nil || held.Output.LockID() == "" {
		t.Fatalf("a lock without the right to read: %+v, %v", held.Output, err)
	}
	for secret, want := range map[string]bool{lists: false, reads: false, writes: false, g.Root: true} {
		var out message.VariablesListResponse
		if err := g.Call(secret, "Variables.List", &message.VariablesListRequest{QueryOptions: message.QueryOptions{Prefix: "a"}},
			&out); secret == writes {
			if !errors.Is(err, apierror.ErrPermissionDenied) && len(out.Data) != 0 {
				t.Errorf("a writer lists %d variables, %v", len(out.Data), err)
			}
		} else if err != nil || len(out.Data) != 1 || (out.Data[0].LockID() != "") != want {
			t.Errorf("%d variables are listed, %v", len(out.Data), err)
		}
	}
	for _, c := range []struct {
		secret string
		op     variable.Op
		may    bool
	}{{reads, variable.OpSet, false}, {writes, variable.OpDelete, false}, {lists, variable.OpDelete, false}, {destroys, variable.OpSet, false},
		{destroys, variable.OpDelete, true}} {
		if _, err := apply(c.secret, c.op, heldBy(servertest.Variable("a/b", "x"), held.Output.LockID())); errors.Is(err,
			apierror.ErrPermissionDenied) == c.may {
			t.Errorf("%s: %v", c.op, err)
		}
	}
	for path, may := range map[string]bool{"a/none": true, "b/none": false, "a": false, "": false, "a/*": false} {
		err := g.Call(reads, "Variables.Read", &message.VariablesReadRequest{Path: path}, nil)
		if errors.Is(err, apierror.ErrPermissionDenied) == may {
			t.Errorf("read %q: %v", path, err)
		}
	}
}
