"""Mails that a sender who means harm, or a program that errs, may send."""

from __future__ import annotations

NAMES = (
    b"plan.txt", b"plan.txt.meta.yaml", b"plan.txt.elements.json", b".hidden.txt", b"..", b"", b"/etc/passwd.txt",
    b"C:\\docs\\plan.txt", b"a/../../b.txt", b"a.eml", b"a.eml.eml", b"A.EML", b"plan.txt ", b"\xe2\x80\xaefdp.txt",
    b"x" * 300 + b".txt", "ы".encode() * 300 + b".txt", b"=?utf-8?B?Li4vLi4vcGxhbi50eHQ=?=", b"=?bogus?B?////?=.txt",
)  # fmt: skip
"""Of attachments."""
ATTACHED = b"Content-Disposition: attachment; filename=plan.%b\r\n"


def mail(subject: bytes, *parts: bytes, head: bytes = b"") -> bytes:
    """Of parts, each with its own head."""
    body = b"".join(b"--x\r\n%b\r\n" % part for part in parts)
    return b"Subject: %b\r\nFrom: a@example.org\r\n%bContent-Type: multipart/mixed; boundary=x\r\n\r\n%b--x--\r\n" % (
        subject,
        head,
        body,
    )


def mails() -> dict[str, bytes]:
    """By what is wrong with each."""
    attached = (
        b'Content-Type: text/plain\r\nContent-Disposition: attachment; filename="%b"\r\n\r\nKeys of the vault.\r\n'
    )
    base64 = b"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n" + ATTACHED % b"pdf"
    return {
        "names": mail(b"names", b"\r\nSee below.", *(attached % name for name in NAMES)),
        "many": mail(b"many", b"\r\nSee below.", *[attached % b"plan.txt"] * 10_000),
        "mails within mails": within(100),
        "parts within parts": nested(150),
        "long head": mail(b"x" * 3_000_000, b"\r\nSee below.", head=b"X-Other: %b\r\n" % (b"y" * 3_000_000)),
        "long name": mail(b"long name", attached % (b"n" * 3_000_000 + b".txt")),
        "NUL": mail(b"a\0b\x01c", b"\r\nSee\0below.", attached % b"a\0b.txt"),
        "charsets": mail(
            b"=?bogus?B?////?= =?utf-8?Q?=ff=fe?=",
            b"Content-Type: text/plain; charset=bogus\r\n\r\nSee below.",
            b"Content-Disposition: attachment; filename*=bogus''%FF%FEplan.txt\r\n\r\nKeys of the vault.",
            head=b"Date: Mon, 99 Foo 99999 99:99:99 +9999\r\n",
        ),
        "base64": mail(b"base64", b"\r\nSee below.", base64 + b"\r\n!!!\xff\0JVBE=Ri0=x\r\n"),
        "encoding": mail(b"encoding", ATTACHED % b"txt" + b"Content-Transfer-Encoding: x-other\r\n\r\nxyz"),
        "encoded mail": mail(
            b"encoded", b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nU3ViamVjdDogYQ0KDQpi"
        ),
        "archive by another name": mail(b"archive", b"\r\nSee below.", ATTACHED % b"txt" + b"\r\nPK\3\4 of an archive"),
        "no boundary": b"Subject: none\r\nContent-Type: multipart/mixed\r\n\r\n--x\r\n\r\nSee below.\r\n--x--\r\n",
        "boundary of lines": mail(b"lines", b"\r\nSee below.").replace(b"=x", b'="x\r\n y"'),
        "no head": b"\r\nSee below.\r\n",
        "nothing": b"",
    }


def within(deep: int) -> bytes:
    made = b"Subject: innermost\r\n\r\nSee above.\r\n"
    for _ in range(deep):
        boundary = b"b%d" % len(made)
        made = (
            b"Subject: deep\r\nContent-Type: multipart/mixed; boundary=%b\r\n\r\n--%b\r\nContent-Type: message/rfc822"
            b"\r\n\r\n%b\r\n--%b--\r\n" % (boundary, boundary, made, boundary)
        )
    return made


def nested(deep: int) -> bytes:
    made = b"\r\nSee above.\r\n"
    for number in range(deep):
        made = b"Content-Type: multipart/mixed; boundary=c%d\r\n\r\n--c%d\r\n%b\r\n--c%d--\r\n" % (
            *(number, number, made), number
        )  # fmt: skip
    return b"Subject: nested\r\n" + made
