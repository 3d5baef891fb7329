package nodeid

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad/idtoken"
)

// A renewal is overdue when a quarter of the token's lifetime remains, or when one was
// requested.
func TestRenewal_Overdue(t *testing.T) {
	given := time.Unix(1_800_000_000, 0)
	token := func(claims string) idtoken.Token {
		return idtoken.New("e30."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".c2ln", "k")
	}
	hour := token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, given.Unix(), given.Add(time.Hour).Unix()))
	for name, c := range map[string]struct {
		token idtoken.Token
		asked bool
		after time.Duration
		want  bool
	}{
		"fresh":             {hour, false, 0, false},
		"at two thirds":     {hour, false, 41 * time.Minute, false},
		"at three quarters": {hour, false, 45*time.Minute + time.Second, true},
		"ended":             {hour, false, 2 * time.Hour, true},
		"requested":         {hour, true, 0, true},
		"no token":          {idtoken.Token{}, false, time.Hour, false},
		"without expiry":    {token(`{"iat":1}`), false, time.Hour, false},
		"invalid JSON":      {token(`{`), false, time.Hour, false},
	} {
		i := &Identity{token: c.token, renew: c.asked}
		if got := i.overdue(given.Add(c.after)); got != c.want {
			t.Errorf("%s: overdue is %t, want %t", name, got, c.want)
		}
	}
	if _, ends, ok := (&Identity{token: hour}).lifetime(); !ok || !ends.Equal(given.Add(time.Hour)) {
		t.Errorf("the token expires at %v", ends)
	}
}
