// Package harness has what the tests of several packages below e2e need: agents with a directory and a log, fleets and
// clusters of servers, jobs in HCL, waits, requests and tokens of tasks. Package e2e/cluster runs the processes.
//
// Each package calls Main in its TestMain. Every wait is bounded (Patience), and agents stop with the test.
package harness
