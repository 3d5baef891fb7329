// Package bridge tests the networks of groups with a real agent, real CNI plugins and real firewall
// rules. The agent runs in a network namespace of the tests, so that the machine's own rules never
// change. The tests need root, the packages containernetworking-plugins and iptables, and bin/nomad.
package bridge
