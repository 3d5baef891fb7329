package account_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker/account"
)

// image is an image whose author gives harmless names the IDs of root.
var image = account.Files{
	Passwd: "root:x:0:0::/:\napp:x:0:0::/:\nweb:x:1000:1000::/:\nwheel:x:1001:0::/:\nodd:x:+0:0::/:\nplus:x:1002:-0::/:\nshort:x\nweb:x:0:0::/:\nmany:x:1003:1003::/:\n77:x:0:0::/:\n",
	Group:  "root:x:0:\nappg:x:0:\nwebg:x:1000:web\nsys:x:0:web2,many\nmedia:x:44:many,web\noddg:x:+0:\n",
}

// What a name is follows from the files of the image, and only canonical numbers come out.
func TestResolve(t *testing.T) {
	for given, want := range map[string]string{
		"web": "1000:1000 [44 1000]", "app": "0:0 []", "wheel": "1001:0 []", "1000": "1000:1000 [44 1000]", "1001": "1001:0 []",
		"many":     "1003:1003 [0 44]",
		"web:appg": "1000:0 []", "1000:appg": "1000:0 []", "5:6": "5:6 []", "web:44": "1000:44 []", "77": "77:0 [] unknown",
		"4711": "4711:0 [] unknown", "0": "0:0 []",
		"odd": "invalid number", "plus": "invalid number", "1002": "invalid number", "5:oddg": "invalid number", "nobody": "no user nobody",
		"short": "no user short", "5:nogroup": "no group nogroup",
	} {
		a, err := account.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := image.Resolve(a, nil)
		got := fmt.Sprint(ids.User(), " ", ids.GroupAdd())
		if ids.Unknown {
			got += " unknown"
		}
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("Resolve(%s) = %q, want %q", given, got, want)
		}
	}
}

func TestHasRoot(t *testing.T) {
	for want, ids := range map[string]account.IDs{"the user 0": {GID: 1}, "the group 0": {UID: 1},
		"the additional group 0": {UID: 1, GID: 1, Groups: []int{4, 0}}, "": {UID: 1, GID: 1, Groups: []int{4}}} {
		if got := ids.HasRoot(); got != want {
			t.Errorf("HasRoot(%+v) = %q, want %q", ids, got, want)
		}
	}
}

// Whatever a file has, a lookup gives canonical IDs or an error.
func FuzzResolve(f *testing.F) {
	f.Add("web", image.Passwd, image.Group)
	f.Add("5:g", "", "g:x:-0:")
	f.Fuzz(func(t *testing.T, user, passwd, group string) {
		a, err := account.Parse(user)
		if err != nil {
			return
		}
		ids, err := account.Files{Passwd: passwd, Group: group}.Resolve(a, nil)
		if err != nil {
			return
		}
		again, err := account.Parse(ids.User())
		if err != nil || again.User.Named() || again.Group.Named() || again.IsRoot() != (ids.UID == 0 || ids.GID == 0) {
			t.Errorf("%q with %q and %q = %+v, %v", user, passwd, group, ids, err)
		}
	})
}
