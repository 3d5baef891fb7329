package testvault_test

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testvault"
)

// TestRecords checks that the lives of tokens are recorded: renewals, how they ended, and renewals after that.
func TestRecords(t *testing.T) {
	v := testvault.Start(t, testvault.Config{})
	v.Expect("unknown token")
	idp := workloads(t, v, map[string]any{"token_period": "1m"})
	enter := func() string {
		t.Helper()
		s, err := login(t, v, idp.Token(claims(nil)), "")
		must(t, err)
		return s.Auth.ClientToken
	}
	renew := func(id string) error {
		_, err := client(t, v, id).Auth().Token().RenewSelf(0)
		return err
	}
	revoked, expired, lost, valid := enter(), enter(), enter(), enter()
	must(t, renew(revoked))
	must(t, client(t, v, revoked).Auth().Token().RevokeSelf(""))
	refused(t, "renewal after the revocation", renew(revoked), 403, "permission denied")
	v.Lost(lost)
	refused(t, "renewal of a lost token", renew(lost), 403, "permission denied")
	v.Advance(50 * time.Second)
	must(t, renew(valid))
	v.Advance(20 * time.Second)
	got := v.Records()
	for id, want := range map[string]struct {
		end            testvault.End
		renewals, late int
	}{
		revoked: {testvault.Revoked, 1, 1}, expired: {testvault.Expired, 0, 0}, lost: {testvault.Lost, 0, 0}, valid: {"", 1, 0},
	} {
		if r := got[id]; r.End != want.end || r.Renewals != want.renewals || len(r.Late) != want.late || r.Role != "nomad-workloads" {
			t.Errorf("record %+v, want end %q, %d renewals, %d late", r, want.end, want.renewals, want.late)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d records, want 4: without the tokens of the test", len(got))
	}
}
