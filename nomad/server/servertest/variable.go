package servertest

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/server"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// ApplyVariable executes an operation on a variable in the default namespace.
func ApplyVariable(t testing.TB, s *server.Server, op variable.Op, v *variable.Decrypted) (*message.VariablesApplyResponse, error) {
	t.Helper()
	var out message.VariablesApplyResponse
	err := s.Call(Context(t), "Variables.Apply",
		&message.VariablesApplyRequest{Op: op, Var: v, WriteRequest: message.WriteRequest{Region: "global"}}, &out)
	return &out, err
}

// WriteVariable is ApplyVariable, and fails the test on an error.
func WriteVariable(t testing.TB, s *server.Server, op variable.Op, v *variable.Decrypted) *message.VariablesApplyResponse {
	t.Helper()
	out, err := ApplyVariable(t, s, op, v)
	if err != nil {
		t.Fatalf("%s of %s: %v", op, v.Path, err)
	}
	return out
}

// Variable returns a variable with one item.
func Variable(path, value string) *variable.Decrypted {
	v := &variable.Decrypted{Metadata: variable.Metadata{Path: path}}
	if value != "" {
		v.Items = variable.Items{"k": value}
	}
	return v
}

// VariableIn returns a variable of a namespace with one item.
func VariableIn(ns, path string) *variable.Decrypted {
	v := Variable(path, "canary")
	v.Namespace = ns
	return v
}
