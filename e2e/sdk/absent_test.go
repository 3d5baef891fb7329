package sdk_test

import (
	"path/filepath"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// sdkServer returns an SDK client of a server with gossip.
func sdkServer(t *testing.T) *sdk.Client {
	t.Helper()
	dir := harness.TempDir(t)
	a := harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data")}})
	return harness.SDKClient(t, a, "")
}

// Removing an object that does not exist gives the answer that callers of the SDK expect.
func TestSDKRemovesAbsent(t *testing.T) {
	for name, c := range map[string]*sdk.Client{"server": sdkServer(t), "dev": harness.SDKClient(t, harness.DevAgent(t), "")} {
		t.Run(name, func(t *testing.T) { removesAbsent(t, c) })
	}
}

func removesAbsent(t *testing.T, c *sdk.Client) {
	t.Helper()
	for _, prune := range []bool{false, true} {
		if err := c.Agent().ForceLeaveWithOptions("nope", sdk.ForceLeaveOpts{Prune: prune}); err != nil {
			t.Errorf("force-leave of an unknown server, prune %v: %v", prune, err)
		}
		for _, namespace := range []string{"default", "nope"} {
			eval, meta, err := c.Jobs().Deregister("nope", prune, &sdk.WriteOptions{Namespace: namespace})
			if err != nil || eval != "" || meta.LastIndex == 0 {
				t.Errorf("Deregister() of an unknown job in %s, purge %v = %q, %+v, %v", namespace, prune, eval, meta, err)
			}
		}
	}
	if evals, _, err := c.Evaluations().List(&sdk.QueryOptions{Namespace: "*"}); err != nil || len(evals) != 0 {
		t.Errorf("evaluations after these = %d, %v", len(evals), err)
	}
	for _, id := range []string{"aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "nope"} {
		_, err := c.Keyring().Delete(&sdk.KeyringDeleteOptions{KeyID: id, Force: true}, nil)
		harness.WantError(t, "removal of root key "+id, err, "404", `root key "`+id+`" does not exist`)
	}
	if keys, _, err := c.Keyring().List(nil); err != nil || len(keys) != 1 {
		t.Errorf("root keys after these = %d, %v", len(keys), err)
	}
}
