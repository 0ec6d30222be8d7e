# SPDX-License-Identifier: BSD-3-Clause
"""Reads a report of fs-launch, JSON or page: report.py FILE WORD...

A word is a check: every-node-remote (each node got files from another one), none-shared (nothing came from shared
storage), no-errors; or a number to print: files.NODE.PLACE, or nodes.NODE.KEY, total.KEY. The demo imports it."""
import json
import sys

PLACES = ("local", "cache", "remote", "shared")
ERRORS = ("errors", "fallbacks", "checksum_errors", "timeouts", "refused")


class Report:
    def __init__(self, path):
        with open(path) as f:
            text = f.read()
        if path.endswith(".html"):
            text = text.split(' id="data">', 1)[1].split("</script>", 1)[0]
        self.data = json.loads(text)
        self.nodes = len(self.data["nodes"])

    def number(self, node, key):
        return self.data["nodes"][node][key]

    def files(self, node):
        return {place: self.number(node, "files_" + place) for place in PLACES}


def check(report, word):
    """None, or what is wrong."""
    for node in range(report.nodes):
        if not report.data["nodes"][node]["reported"]:
            return "node %d did not report" % node
        if word == "every-node-remote" and not report.files(node)["remote"]:
            return "node %d got nothing from the other nodes" % node
        if word == "none-shared" and any(report.number(node, k + "_shared") for k in ("files", "bytes", "blocks")):
            return "node %d read from shared storage" % node
        if word == "no-errors":
            for key in ERRORS:
                if report.number(node, key):
                    return "node %d: %d %s" % (node, report.number(node, key), key)
    return None


def main():
    report = Report(sys.argv[1])
    for word in sys.argv[2:]:
        parts = word.split(".")
        if parts[0] == "files":
            print(report.files(int(parts[1]))[parts[2]])
        elif parts[0] == "nodes":
            print(report.number(int(parts[1]), parts[2]))
        elif parts[0] == "total":
            print(report.data["total"][parts[1]])
        else:
            wrong = check(report, word)
            if wrong:
                sys.exit("%s: %s\n%s" % (word, wrong, json.dumps(report.data["nodes"], indent=1)))


if __name__ == "__main__":
    main()
