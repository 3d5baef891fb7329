package sdk_test

import (
	"context"
	"errors"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Every SDK method for variables and their locks works.
func TestSDKVariables(t *testing.T) {
	a := harness.DevAgent(t)
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address()})
	if err != nil {
		t.Fatal(err)
	}
	vars := c.Variables()
	made, _, err := vars.CheckedCreate(&sdk.Variable{Path: "app/one", Items: sdk.VariableItems{"k": "v"}}, nil)
	if err != nil || made.Namespace != "default" || made.CreateIndex == 0 || made.Items["k"] != "v" {
		t.Fatalf("CheckedCreate() = %+v, %v", made, err)
	}
	var conflict sdk.ErrCASConflict
	if _, _, err := vars.CheckedCreate(made, nil); !errors.As(err, &conflict) || conflict.Conflict.ModifyIndex != made.ModifyIndex ||
		conflict.Conflict.Items["k"] != "v" {
		t.Errorf("CheckedCreate() of an existing variable = %v", err)
	}
	made.Items["k"] = "w"
	next, _, err := vars.CheckedUpdate(made, nil)
	if err != nil || next.ModifyIndex <= made.ModifyIndex {
		t.Fatalf("CheckedUpdate() = %+v, %v", next, err)
	}
	if _, _, err := vars.CheckedUpdate(made, nil); !errors.As(err, &conflict) {
		t.Errorf("CheckedUpdate() of an old one = %v", err)
	}
	if _, _, err := vars.Update(&sdk.Variable{Path: "app/two", Items: sdk.VariableItems{"k": "x"}}, nil); err != nil {
		t.Errorf("Update() = %v", err)
	}
	if items, _, err := vars.GetVariableItems("app/one", nil); err != nil || items["k"] != "w" {
		t.Errorf("GetVariableItems() = %v, %v", items, err)
	}
	if _, _, err := vars.Read("app/none", nil); !errors.Is(err, sdk.ErrVariablePathNotFound) {
		t.Errorf("Read() of none = %v", err)
	}
	if v, _, err := vars.Peek("app/none", nil); v != nil || err != nil {
		t.Errorf("Peek() of none = %+v, %v", v, err)
	}
	list, meta, err := vars.PrefixList("app/", &sdk.QueryOptions{PerPage: 1})
	if err != nil || len(list) != 1 || list[0].Path != "app/one" || meta.NextToken != "default.app/two" {
		t.Errorf("PrefixList() = %+v, %v", list, err)
	}
	if _, err := vars.CheckedDelete("app/one", made.ModifyIndex, nil); !errors.As(err, &conflict) {
		t.Errorf("CheckedDelete() of an old one = %v", err)
	}
	if _, err := vars.CheckedDelete("app/one", next.ModifyIndex, nil); err != nil {
		t.Errorf("CheckedDelete() = %v", err)
	}
	if _, err := vars.Delete("app/two", nil); err != nil {
		t.Errorf("Delete() = %v", err)
	}
	if list, _, err := vars.List(nil); err != nil || len(list) != 0 {
		t.Errorf("List() = %+v, %v", list, err)
	}
	sdkLocks(t, c)
}

// sdkLocks has two holders acquire the same lock one after the other.
func sdkLocks(t *testing.T, c *sdk.Client) {
	t.Helper()
	v := sdk.Variable{Path: "locks/one", Lock: &sdk.VariableLock{TTL: "1m", LockDelay: "10s"}}
	first, err := c.Locks(sdk.WriteOptions{}, v)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Locks(sdk.WriteOptions{}, v)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if path, err := first.Acquire(ctx); err != nil || path != "locks/one" {
		t.Fatalf("Acquire() = %s, %v", path, err)
	}
	if _, err := second.Acquire(ctx); !errors.Is(err, sdk.ErrLockConflict) {
		t.Errorf("Acquire() of what is held = %v", err)
	}
	if err := first.Renew(ctx); err != nil {
		t.Errorf("Renew() = %v", err)
	}
	if err := first.Release(ctx); err != nil {
		t.Errorf("Release() = %v", err)
	}
	if _, err := second.Acquire(ctx); err != nil {
		t.Errorf("Acquire() after the release = %v", err)
	}
	if err := second.Release(ctx); err != nil {
		t.Errorf("Release() = %v", err)
	}
}
