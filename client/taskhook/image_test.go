package taskhook

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// A task in an image may have any user of the image. Only numbers own files on the host.
func TestUserOfImage(t *testing.T) {
	h := &userHook{image: true}
	for user, want := range map[string]Owner{
		"": {UID: -1, GID: -1}, "no-user-of-this-host": {UID: -1, GID: -1}, "1000": {UID: 1000, GID: -1}, "1000:2000": {UID: 1000, GID: 2000},
		"1000:group": {UID: 1000, GID: -1}, "0": {UID: 0, GID: -1}, "-1": {UID: -1, GID: -1}, "99999999999": {UID: -1, GID: -1},
	} {
		var resp TaskPrestartResponse
		if err := h.Prestart(t.Context(), &TaskPrestartRequest{Task: &nomad.Task{User: user}}, &resp); err != nil {
			t.Fatal(err)
		}
		want.User = user
		if *resp.Owner != want {
			t.Errorf("user %q: %+v, want %+v", user, *resp.Owner, want)
		}
	}
}
