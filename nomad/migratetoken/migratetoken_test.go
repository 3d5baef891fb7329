package migratetoken_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/migratetoken"
)

// The wanted text was computed with Python's hashlib.
func TestMigrateToken(t *testing.T) {
	const alloc, secret = "8ba85cef-22b5-4e1d-9d8c-000000000001", "b1d5c1a8-3b2d-4b0f-9d64-000000000002"
	const want = "_MAKvyLJv_rpNftEpuOV-6G9F4Rwn_dCVJqurCegn6zFAsCgbyA-nY0SUcZYzypbwyg5VTryPPmfhtHbuuVx8A=="
	token, err := migratetoken.New(alloc, secret)
	if err != nil || token.Reveal() != want || !token.Matches(want) {
		t.Errorf("token = %q, %v", token.Reveal(), err)
	}
	for _, other := range []string{"", want[1:], want + "=", "x" + want[1:]} {
		if token.Matches(other) || (migratetoken.Token{}).Matches(other) {
			t.Errorf("%q matches", other)
		}
	}
	if text := fmt.Sprintf("%v %+v %s", token, token, token); text != "<migrate token> <migrate token> <migrate token>" {
		t.Errorf("it prints as %q", text)
	}
	for _, missing := range [][2]string{{"", secret}, {alloc, ""}} {
		if _, err := migratetoken.New(missing[0], missing[1]); err == nil {
			t.Errorf("a token for %q", missing)
		}
	}
}
