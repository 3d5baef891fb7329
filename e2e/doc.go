// Package e2e tests the product as its users meet it: scripts under
// testdata/script run real commands against real agents, each started on free
// ports with a directory of its own. What a script may use beside the commands
// of testscript is listed in commands_test.go.
//
// The program under test is this test binary itself, which becomes nomad or its
// companion when it is started under those names. Go tests beside the scripts
// look at what a script cannot: crashes, processes, the official SDK, hostile
// requests. Agents are started by e2e/cluster; every wait has a bound.
package e2e
