package identity_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testdocker"
)

// vaultContainer returns a task of docker that prints a line at each start and at each SIGHUP if the token and the secrets of
// store are in its environment and its files.
func vaultContainer(name, user string) string {
	const script = `check() { [ "$(cat $NOMAD_SECRETS_DIR/vault_token)" != "$seen" ] && [ "$(cat local/live)" = one ] && ` +
		`[ "$FIXED" = "fixed user" ] && echo $1; seen=$(cat $NOMAD_SECRETS_DIR/vault_token); }; ` +
		`[ "$VAULT_TOKEN" = "$(cat $NOMAD_SECRETS_DIR/vault_token)" ] && check same; trap "check hup" HUP; while :; do sleep 0.2; done`
	return fmt.Sprintf("task %q {\n driver = \"docker\"\n user = %q\n vault {\n change_mode = \"signal\"\n change_signal = \"SIGHUP\"\n}\n"+
		" config {\n image = %q\n command = \"sh\"\n args = [\"-c\", %q]\n work_dir = \"/\"\n}\n resources {\n cpu = 10\n memory = 30\n}\n%s\n}\n",
		name, user, testdocker.Image, script, fmt.Sprintf(secretBlocks, "shop"))
}

// TestVault_Docker checks that containers get tokens, secrets and templates of Vault, also with an ordinary user, and the token
// of a new login, over a kill of the agent.
func TestVault_Docker(t *testing.T) {
	t.Parallel() // it mostly waits
	daemon := testdocker.Start(t)
	w := startVault(t, fastTemplates+fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n infra_image = %q\n}\n}\n",
		daemon.Endpoint(), testdocker.Pause))
	defer w.purge()
	w.trust()
	w.store("shop")
	w.v.Expect("unknown token")
	harness.Run(t, w.a, vaultJob("shop", vaultContainer("root", ""), vaultContainer("user", "1000")))
	al := harness.Await(t, w.a, "shop", "running", 1)[0]
	tasks := []string{"root", "user"}
	all := func(what, line string, n int) {
		t.Helper()
		harness.Within(t, harness.Patience, what, func() bool {
			return !slices.ContainsFunc(tasks, func(task string) bool { return w.printed(al, task, line) != n || !w.works(al, task) })
		})
	}
	all("the tasks have tokens and secrets", "same", 1)
	w.kill(func() {
		for _, task := range tasks {
			w.v.Lost(w.token(al, task))
		}
	})
	all("the tasks have new tokens after a kill of the agent", "hup", 1)
	if now := w.alloc("shop", al.ID); now.TaskStates["root"].Restarts+now.TaskStates["user"].Restarts != 0 {
		t.Errorf("the tasks have restarted: %q", messages(now, "root"))
	}
	harness.StopAndWait(t, w.a, "shop", 1)
	w.none()
}
