// Package e2e tests the product from the view of its users. Scripts under testdata/script run real
// commands against real agents, each on free ports and with its own directory. The file
// commands_test.go lists the script commands in addition to those of testscript.
//
// The program under test is this test binary, which acts as nomad or its companion when it is
// started under those names. Go tests cover what a script cannot: crashes, processes, the official
// SDK, hostile requests. Package e2e/cluster starts the agents; every wait is bounded.
package e2e
