// Package allocrunner runs one allocation.
package allocrunner
