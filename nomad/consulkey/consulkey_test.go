package consulkey_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/consulkey"
)

// The results are those of internal/consulkey, and its errors have status 400.
func TestErrorsHaveAStatus(t *testing.T) {
	if path, err := consulkey.Path("a/b.c"); path != "consul/a/b~2Ec" || err != nil {
		t.Errorf("Path() = %q, %v", path, err)
	}
	if prefix, err := consulkey.Prefix("a/"); prefix != "consul/a/" || err != nil {
		t.Errorf("Prefix() = %q, %v", prefix, err)
	}
	if key, ok := consulkey.Key("consul/a/b~2Ec"); key != "a/b.c" || !ok {
		t.Errorf("Key() = %q, %v", key, ok)
	}
	_, path := consulkey.Path("a/")
	_, prefix := consulkey.Prefix("//")
	for _, err := range []error{path, prefix} {
		var coded *apierror.Coded
		if !errors.As(err, &coded) || coded.Code != 400 {
			t.Errorf("error = %v, want one with status 400", err)
		}
	}
}
