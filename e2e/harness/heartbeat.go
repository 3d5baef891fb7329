package harness

// Loopback lets several clients run on one machine.
const Loopback = "client {\n network_interface = \"lo\"\n}\n"

// QuickHeartbeats are heartbeat settings for tests: short, but long enough that a busy machine does not
// cause a missed heartbeat.
const QuickHeartbeats = `
server {
  heartbeat_grace        = "10s"
  min_heartbeat_ttl      = "1s"
  failover_heartbeat_ttl = "15s"
}
`
