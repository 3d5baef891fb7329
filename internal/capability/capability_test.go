package capability_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/internal/capability"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestCanonical(t *testing.T) {
	got := capability.Canonical([]string{" cap_net_raw", "Chown", "NET_RAW", "all"})
	if want := []string{"ALL", "CHOWN", "NET_RAW"}; !slices.Equal(got, want) {
		t.Errorf("Canonical() = %q, want %q", got, want)
	}
}

// TestSet compares the default set with the mask that the kernel shows for it.
func TestSet(t *testing.T) {
	if got := capability.Set(drivers.DefaultCapabilities()); got != 0xa80405fb {
		t.Errorf("Set() = %#x, want 0xa80405fb", got)
	}
	if got := capability.Set([]string{"NO_SUCH"}); got != 0 {
		t.Errorf("an unknown name has the set %#x", got)
	}
}

func TestSupported(t *testing.T) {
	if got := capability.Supported(); !slices.Contains(got, "AUDIT_READ") || len(got) > len(capability.Names()) {
		t.Errorf("Supported() = %q", got)
	}
}
