// Package crash kills, stops and damages agents and their files, at random and at chosen moments. Kills at each
// step of an allocation are in e2e/killed.
package crash
