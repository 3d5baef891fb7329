package ui

import "testing"

func TestServersPage(t *testing.T) {
	h := open(t)
	h.visit(t, visited{name: "servers", path: "/ui/servers", text: "Removes dead servers"})
	p := h.signedIn(t)
	p.show(views[0])
	p.goTo("/ui/servers", "open-nomad")
	p.waitText("Leader")
	p.uninjected("/ui/servers")
	_, secret := h.token(t, `namespace "default" { policy = "read" }`, 0)
	few := h.with(t, secret, "403")
	few.goTo("/ui/servers", "Your token may not read the gossip members.")
	few.waitText("Your token may not read the Raft peers and their health.")
}

// A server can be missing in any of the three lists, and the health of unhealthy servers has the
// status 429.
func TestServerRows(t *testing.T) {
	p := open(t).signedIn(t)
	p.goTo("/ui/settings/tokens", "Appearance")
	got := evaluate[string](p, `(async () => {
		const { healthOf, mergeServers } = await import(document.querySelector('script[type=module]').src.replace(/[^/]*$/, 'pages/servers/merge.js'))
		const members = [{ Name: 'a.global', Addr: '10.0.0.1', Port: 1, Status: 'alive', Tags: { id: 'A', port: '4647', build: '2.0.6', project: 'open-nomad', region: 'global' } },
			{ Name: 'c.other', Addr: '::1', Port: 4648, Status: 'left', Tags: { id: 'C', build: '1.9.0', region: 'other' } }]
		const peers = [{ ID: 'A', Node: 'a.global', Address: 'x', Leader: true, Voter: true }, { ID: 'B', Node: '', Address: '10.0.0.2:4647', Leader: false, Voter: false }]
		const health = healthOf({ error: { status: 429, message: JSON.stringify({ Healthy: false, Servers: [{ ID: 'B', Name: 'b', Healthy: false, LastIndex: 7 }] }) } })
		const rows = mergeServers(members, peers, health.health.Servers).map((r) => [r.name, r.status, r.version, r.address, r.peer, r.voter, r.leader, r.healthy, r.lastIndex].join(' '))
		const busy = healthOf({ error: { status: 429, message: 'too many' } }).error.message
		return [...rows, busy, mergeServers().length].join('\n')
	})()`)
	want := "B   10.0.0.2:4647 true false false false 7\na.global alive 2.0.6 open-nomad x true true true  \n" +
		"c.other left 1.9.0 [::1]:4648 false    \ntoo many\n0"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
